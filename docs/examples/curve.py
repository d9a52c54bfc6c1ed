"""A training that needs nothing but Python: fits a wave, and writes its loss for TensorBoard.

Command: `python curve.py`. Image: any with Python 3.
"""

import argparse
import json
import math
import os
import random
import struct
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--rate", type=float, default=0.05)
parser.add_argument("--pause", type=float, default=0.1, help="seconds between steps")
flags = parser.parse_args()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    """One record of an event file: length and data, each with its masked checksum."""

    def check(part: bytes) -> bytes:
        crc = crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + check(length) + data + check(data)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def event(step: int, tag: str, value: float) -> bytes:
    """The protocol buffer `tensorflow.Event` with one scalar in it."""
    name = tag.encode()
    scalar = b"\x0a" + varint(len(name)) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + varint(len(scalar)) + scalar
    head = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + varint(step)
    return head + b"\x2a" + varint(len(summary)) + summary


random.seed(7)
points = [(x / 10, math.sin(x / 10) + random.gauss(0, 0.05)) for x in range(-30, 31)]
weights = [0.0] * 4  # of x, x³, x⁵, x⁷, each scaled to about one
events = Path(os.environ["LOG_DIR"]) / f"events.out.tfevents.{int(time.time())}.curve"

with events.open("ab") as file:
    for step in range(1, flags.steps + 1):
        slope, loss = [0.0] * 4, 0.0
        for x, y in points:
            terms = [(x / 3) ** power for power in (1, 3, 5, 7)]
            error = sum(w * t for w, t in zip(weights, terms, strict=True)) - y
            loss += error**2 / len(points)
            slope = [s + error * t / len(points) for s, t in zip(slope, terms, strict=True)]
        weights = [w - 40 * flags.rate * s for w, s in zip(weights, slope, strict=True)]
        file.write(framed(event(step, "loss", loss)))
        file.flush()
        if step == 1 or step % 5 == 0:
            print(f"step {step:4d}  loss {loss:.4f}", flush=True)
        time.sleep(flags.pause)

target = Path(os.environ["ARTIFACTS_DIR"]) / "weights.json"
target.write_text(json.dumps({"weights": weights, "loss": loss}, indent=1))
print(f"done: loss {loss:.4f}, weights kept in {target.name}", flush=True)
