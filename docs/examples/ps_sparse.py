"""Asynchronous training whose workers know the parameter servers alone: none waits for another one.

Topology: tf-ps with a sparse cluster spec (REST: `"sparse_spec": true`).
Command: `python ps_sparse.py --log_dir={{log_dir}}`.
"""

import argparse
import os
import socket
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
parser = argparse.ArgumentParser()
parser.add_argument("--log_dir", default="/log")
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--step_s", type=float, default=0.0)
flags = parser.parse_args()

told = tf.distribute.cluster_resolver.TFConfigClusterResolver()
cluster, role, task = told.cluster_spec(), told.task_type, told.task_id
where = socket.gethostbyname(socket.gethostname())
print(f"{role}-{task} at {where} knows {os.environ['TF_CONFIG']}", flush=True)
if role == "ps":
    tf.train.Server(cluster, job_name=role, task_index=task).join()  # it never returns

# A server knows nobody, so no graph can span several: each keeps a block of the weights, and a
# worker, which computes the gradient by itself, reads and changes them by a session with each.
servers, size = [tf.Session(f"grpc://{one}") for one in cluster.job_tasks("ps")], 20
global_step = tf.train.get_or_create_global_step()
block = tf.get_variable("w", [size // len(servers), 1], initializer=tf.zeros_initializer())
pushed = tf.placeholder(tf.float32, block.shape)
push = [block.assign_sub(0.002 * pushed), global_step.assign_add(1)]
missing, begin = tf.report_uninitialized_variables(), tf.global_variables_initializer()
x, y, weights = (tf.placeholder(tf.float32, [None, count]) for count in (size, 1, 1))
loss = tf.reduce_mean((x @ weights - y) ** 2)
[gradient] = tf.gradients(loss, [weights])
for server in servers:
    if task == 0 and server.run(missing).size:  # else this worker was started again
        server.run(begin)
    while server.run(missing).size:
        time.sleep(0.1)

random, truth = np.random.RandomState(task), np.random.RandomState(9).randn(size, 1)
value = step = 0
with tf.Session() as own:
    while step < flags.steps:
        features = random.randn(64, size)  # of this worker alone
        pulled = np.concatenate([server.run(block) for server in servers])
        batch = {weights: pulled, x: features, y: features @ truth}
        value, slope = own.run([loss, gradient], batch)
        blocks = zip(servers, np.split(slope, len(servers)), strict=True)
        step = max(server.run(push, {pushed: part})[1] for server, part in blocks)
        if step % 50 < 2:  # all workers count together
            print(f"{role}-{task} step {step} loss {value:.6f}", flush=True)
        time.sleep(flags.step_s)
np.save(os.path.join(flags.log_dir, f"weights-{task}.npy"), pulled)
print(f"{role}-{task} ended at loss {value:.6f}", flush=True)
