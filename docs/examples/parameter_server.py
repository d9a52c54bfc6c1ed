"""Asynchronous training on parameter servers by TensorFlow's ParameterServerStrategy.

Topology: tf-ps with a chief and, if you like, an evaluator. Image: TensorFlow 2.
Command: `python parameter_server.py --log_dir={{log_dir}}`
"""

import argparse
import socket

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--log_dir", default="/log")
parser.add_argument("--steps", type=int, default=300)
flags = parser.parse_args()
cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
role, index = cluster.task_type, cluster.task_id
print(f"{role}-{index} at {socket.gethostbyname(socket.gethostname())}", flush=True)
if role in ("worker", "ps"):  # they serve the chief until Homeport removes them after it
    tf.distribute.Server(cluster.cluster_spec(), job_name=role, task_index=index).join()


def loss_of(weights, shard):  # of one of ten shards of a thousand samples
    number = tf.range(100.0) + 100.0 * tf.cast(shard, tf.float32)
    features = tf.stack([tf.cos(number), tf.sin(number)], axis=1)
    targets = 2.0 * features[:, 0] - 3.0 * features[:, 1]
    return tf.reduce_mean((tf.linalg.matvec(features, weights) - targets) ** 2)


if role == "evaluator":
    weights, step = tf.Variable([0.0, 0.0]), tf.Variable(0)
    for path in tf.train.checkpoints_iterator(flags.log_dir, timeout=900):
        tf.train.Checkpoint(weights=weights, step=step).restore(path).expect_partial()
        loss = tf.reduce_mean([loss_of(weights, shard) for shard in range(10)])
        print(f"evaluated step {step.numpy()} loss {loss.numpy():.6f}", flush=True)
        if step.numpy() >= flags.steps:
            raise SystemExit

strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights, step = tf.Variable([0.0, 0.0]), tf.Variable(0)


@tf.function
def train(shard):
    with tf.GradientTape() as tape:
        loss = loss_of(weights, shard)
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    step.assign_add(1)
    return loss


checkpoint = tf.train.Checkpoint(weights=weights, step=step)
manager = tf.train.CheckpointManager(checkpoint, flags.log_dir, max_to_keep=3)
while step.numpy() < flags.steps:
    losses = [coordinator.schedule(train, args=(tf.constant(shard),)) for shard in range(10)]
    coordinator.join()  # gives what a lost worker had to do to another
    manager.save()
    print(f"step {step.numpy()} loss {losses[-1].fetch():.6f}", flush=True)
