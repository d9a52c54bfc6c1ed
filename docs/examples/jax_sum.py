"""Synchronous training of several JAX processes, each with data of its own.

Topology: jax. Command: `python jax_sum.py`. Image: any with JAX.
"""

import argparse
import os
import socket

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
flags = parser.parse_args()

rank, count = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])
# It takes the coordinator's address from the environment, but not these two.
jax.distributed.initialize(num_processes=count, process_id=rank)
where = socket.gethostbyname(socket.gethostname())
print(f"rank {rank} of {jax.process_count()} at {where}", flush=True)

# The rank's own hundred samples of a line whose slope differs from rank to rank.
number = jnp.arange(100.0 * rank, 100.0 * rank + 100)
features = jnp.stack([jnp.cos(number), jnp.sin(number)], axis=1)
targets = (2.0 + rank) * features[:, 0] - 3.0 * features[:, 1]


@jax.jit
@jax.value_and_grad
def loss_of(weights):
    return jnp.mean((features @ weights - targets) ** 2)


weights, loss = jnp.zeros(2), float("nan")
for step in range(1, flags.steps + 1):
    own_loss, own_gradient = loss_of(weights)
    # Sums over all processes; the others wait here for each of them.
    gathered = multihost_utils.process_allgather(jnp.append(own_gradient, own_loss))
    *gradient, loss = gathered.sum(axis=0) / count
    weights = weights - 0.1 * jnp.array(gradient)
    if step % 25 == 0:
        print(f"rank {rank} step {step} loss {loss:.6f}", flush=True)
print(f"rank {rank} weights {weights[0]:.6f} {weights[1]:.6f} loss {loss:.6f}", flush=True)
