"""One graph over the devices of all servers, driven by a master: each worker has data of its own.

Topology: tf-ingraph, with a master. Command: `python in_graph.py`. Image: any with TensorFlow.
"""

import argparse
import json
import os
import socket

import numpy as np
import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
flags = parser.parse_args()

tf.disable_eager_execution()
target = os.environ["TF_MASTER"]  # the server of the first worker, which leads to all others
cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
workers = [f"/job:worker/task:{index}" for index in range(len(cluster["worker"]))]
for server in (one for role in ("worker", "ps") for one in cluster.get(role, ())):
    where = socket.gethostbyname(server.rpartition(":")[0])
    print(f"server {server} at {where}", flush=True)
keeper = "/job:ps/task:0" if "ps" in cluster else workers[0]

with tf.device(keeper):
    w, b = tf.Variable(0.0), tf.Variable(0.0)
losses = []
for number, worker in enumerate(workers):
    # The worker's own hundred samples of the line 0.1 x + 0.3.
    x = np.random.RandomState(number).rand(100).astype("float32")
    with tf.device(worker):
        losses.append(tf.reduce_mean(tf.square(w * x + b - (0.1 * x + 0.3))))
loss = tf.add_n(losses) / len(losses)
train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)

with tf.Session(target) as session:
    for device in session.list_devices():
        print("device", device.name, flush=True)
    session.run(tf.global_variables_initializer())
    for step in range(1, flags.steps + 1):
        _, found = session.run([train, loss])
        if step % 100 == 0:
            print(f"step {step} loss {found:.8f}", flush=True)
    print("w {:.4f} b {:.4f}".format(*session.run([w, b])), flush=True)
