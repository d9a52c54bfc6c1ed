"""Synchronous training of several MPI processes, each with data of its own.

Topology: mpi. Command: `mpirun python mpi_sgd.py`. Image: any with an MPI and mpi4py.
"""

import argparse
import socket
import sys
import time
from array import array
from math import cos, sin

from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--step_s", type=float, default=0.0)  # pause, to look at it
flags = parser.parse_args()


def say(text):
    """Whole lines, each by one write, for all ranks share the launcher's log."""
    sys.stdout.write(f"rank {rank} {text}\n")
    sys.stdout.flush()


rank, count = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
where = socket.gethostbyname(socket.gethostname())
say(f"of {count} at {where}")

# The rank's own hundred samples of a line whose slope differs from rank to rank.
numbers = range(100 * rank, 100 * rank + 100)
samples = [(cos(n), sin(n), (2.0 + rank) * cos(n) - 3.0 * sin(n)) for n in numbers]


def gradient_and_loss(first, second):
    """Of the mean squared error over the own samples: two slopes and the error itself."""
    sums = array("d", [0.0, 0.0, 0.0])
    for x, y, target in samples:
        error = first * x + second * y - target
        sums[0] += 2 * x * error / len(samples)
        sums[1] += 2 * y * error / len(samples)
        sums[2] += error * error / len(samples)
    return sums


first = second = 0.0
loss = float("nan")
for step in range(1, flags.steps + 1):
    sums = gradient_and_loss(first, second)
    # Adds up over all processes; the others wait here for each of them.
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, sums)
    first -= 0.1 * sums[0] / count
    second -= 0.1 * sums[1] / count
    loss = sums[2] / count
    if step % 25 == 0:
        say(f"step {step} loss {loss:.6f}")
    time.sleep(flags.step_s)
say(f"weights {first:.6f} {second:.6f} loss {loss:.6f}")
