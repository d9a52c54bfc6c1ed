"""A sweep over step widths: each task of an array tries one, and leaves what it came to.

Topology: array. Command: `python sweep.py`. Image: any with Python.
"""

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--seconds", type=float, default=2.0, help="how long a task pretends to work")
parser.add_argument("--fail_once", type=int, help="a task that fails when it runs first")
flags = parser.parse_args()

task, count = int(os.environ["TASK_INDEX"]), int(os.environ["TASK_COUNT"])
began = time.time()
width = 0.9 * (task + 1) / count
print(f"task {task} of {count} on {socket.gethostname()}: width {width:.3f}", flush=True)

value = 5.0  # of which the square is to become small
for _step in range(flags.steps):
    value -= width * 2 * value
    time.sleep(flags.seconds / flags.steps)

tried = Path(os.environ["LOG_DIR"]) / f"tried-{task}"
if task == flags.fail_once and not tried.exists():
    tried.touch()
    print(f"task {task} span {began:.3f} {time.time():.3f}", flush=True)
    sys.exit("failing once, as asked")

found = {"task": task, "width": width, "loss": value**2}
(Path(os.environ["ARTIFACTS_DIR"]) / f"result-{task}.json").write_text(json.dumps(found))
print(f"task {task} span {began:.3f} {time.time():.3f}", flush=True)
print(f"task {task} loss {value**2:.6f}", flush=True)
