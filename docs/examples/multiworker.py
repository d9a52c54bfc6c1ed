"""Synchronous training of several TensorFlow workers, each with data of its own.

Topology: tf-multiworker. Command: `python multiworker.py --log_dir={{log_dir}}`. Image: TensorFlow 2.
"""

import argparse
import os
import socket
import tempfile

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--log_dir", default="/log")
parser.add_argument("--steps", type=int, default=100)
flags = parser.parse_args()

rank = int(os.environ["TASK_INDEX"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()  # finds the others by TF_CONFIG
count = strategy.num_replicas_in_sync
where = socket.gethostbyname(socket.gethostname())
print(f"rank {rank} of {count} at {where}", flush=True)

# The worker's own hundred samples of a line whose slope differs from worker to worker.
number = tf.range(100.0 * rank, 100.0 * rank + 100)
features = tf.stack([tf.cos(number), tf.sin(number)], axis=1)
targets = (2.0 + rank) * features[:, 0] - 3.0 * features[:, 1]

with strategy.scope():
    # Assignments of the workers are averaged: that is where they talk to each other.
    weights = tf.Variable([0.0, 0.0], aggregation=tf.VariableAggregation.MEAN)
    step = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)


@tf.function
def train():
    def one():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(features, weights) - targets) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        step.assign_add(1)
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(one), axis=None)


# All workers save, as saving reads variables of all; only what worker 0 writes is kept.
folder = flags.log_dir if rank == 0 else tempfile.mkdtemp()
checkpoint = tf.train.Checkpoint(weights=weights, step=step)
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
checkpoint.restore(tf.train.latest_checkpoint(flags.log_dir))
print(f"rank {rank} begins at step {step.numpy()}", flush=True)
loss = float("nan")
while step.numpy() < flags.steps:
    loss = float(train())
    if step.numpy() % 25 == 0:
        manager.save()
        print(f"rank {rank} step {step.numpy()} loss {loss:.6f}", flush=True)
print(f"rank {rank} weights {weights.numpy()[0]:.6f} {weights.numpy()[1]:.6f} loss {loss:.6f}")
