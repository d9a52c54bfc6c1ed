"""Asynchronous training on parameter servers, as scripts of 2017 do it; runs on TensorFlow 2.

Command: `python ps_v1.py --log_dir={{log_dir}}` and, under "Append flags",
--ps_hosts, --worker_hosts, --job_name and --task_index (REST: `"cluster_flags": true`).
"""

import argparse
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
parser.add_argument("--job_name", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--log_dir", default="/log")
flags = parser.parse_args()

cluster = tf.train.ClusterSpec(
    {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")}
)
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
print("server up", flags.job_name, flags.task_index, server.target, flush=True)
if flags.job_name == "ps":
    server.join()  # never returns: the workers decide when the training is over

me = f"/job:worker/task:{flags.task_index}"
with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=cluster)):
    global_step = tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [None, 784])
    y = tf.placeholder(tf.int64, [None])
    weights = tf.get_variable("w", [784, 10])
    bias = tf.get_variable("b", [10], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x @ weights + bias)
    )
    train = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=global_step)
    tf.summary.scalar("loss", loss)

random = np.random.RandomState(flags.task_index)
truth = np.random.RandomState(9).randn(784, 10)
started = time.time()
local_steps = 0
last_step = 0
value = float("nan")
# Without the filters a late worker waits for ever for a worker that has already finished.
only_mine = tf.ConfigProto(device_filters=["/job:ps", me])
with tf.train.MonitoredTrainingSession(
    master=server.target,
    config=only_mine,
    is_chief=flags.task_index == 0,
    checkpoint_dir=flags.log_dir if flags.task_index == 0 else None,
    hooks=[tf.train.StopAtStepHook(last_step=flags.steps)],
    save_summaries_steps=50,
) as session:
    while not session.should_stop():
        features = random.randn(64, 784).astype("f")
        labels = (features @ truth).argmax(1)
        value, last_step, _ = session.run([loss, global_step, train], {x: features, y: labels})
        local_steps += 1
        if local_steps % 100 == 0:
            print(f"step {last_step} loss {value:.3f}", flush=True)
print(
    f"done task {flags.task_index} local_steps {local_steps} global {last_step}"
    f" loss {value:.3f} in {time.time() - started:.1f} s",
    flush=True,
)
