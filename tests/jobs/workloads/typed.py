"""What is typed into the form of a new training."""

from typing import Any


def fields(**changes: Any) -> dict[str, Any]:
    return {
        "name": "mnist",
        "source_kind": "none",
        "command": "python train.py",
        "image": "python:3.11-slim",
        "topology": "single",
        **changes,
    }
