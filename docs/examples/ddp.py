"""Synchronous training of several PyTorch processes, each with data of its own.

Topology: torch-ddp. Command: `python ddp.py`, or `torchrun ddp.py` for one process per GPU; with
`min` below the count of workers it goes on without those that are lost, from its checkpoint.
Image: any with PyTorch.
"""

import argparse
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--step_s", type=float, default=0, help="seconds that a step takes longer")
flags = parser.parse_args()

dist.init_process_group("gloo")  # finds the others by MASTER_ADDR, RANK and WORLD_SIZE
rank, count = dist.get_rank(), dist.get_world_size()
where = socket.gethostbyname(socket.gethostname())
print(f"rank {rank} of {count} at {where}", flush=True)

# The rank's own hundred samples of a line whose slope differs from rank to rank.
number = torch.arange(100.0 * rank, 100.0 * rank + 100)
features = torch.stack([torch.cos(number), torch.sin(number)], dim=1)
targets = (2.0 + rank) * features[:, 0] - 3.0 * features[:, 1]

line = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(line.weight)
checkpoint, done = os.path.join(os.environ.get("LOG_DIR", "."), "line.pt"), 0
if os.path.exists(checkpoint):
    done, saved = torch.load(checkpoint)
    line.load_state_dict(saved)
    print(f"rank {rank} continues after step {done}", flush=True)
model = DistributedDataParallel(line)  # averages gradients over all ranks
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = torch.tensor(float("nan"))
for step in range(done + 1, flags.steps + 1):
    optimizer.zero_grad()
    loss = ((model(features)[:, 0] - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    time.sleep(flags.step_s)
    if step % 25 == 0:
        print(f"rank {rank} step {step} loss {loss.item():.6f}", flush=True)
        if rank == 0:
            torch.save((step, line.state_dict()), f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)

whole = loss.detach()
dist.all_reduce(whole)
first, second = line.weight.detach()[0].tolist()
print(f"rank {rank} weights {first:.6f} {second:.6f} loss {whole.item() / count:.6f}", flush=True)
dist.destroy_process_group()
