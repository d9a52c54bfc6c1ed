"""What a run of the contract found out on one cluster, kept for the report."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TREE = ("deploy/onebox", "deploy/testcluster", "tests/contract")


def folder() -> Path:
    """Where the results lie: CONTRACT_RESULTS, else in the folder of this checkout's state."""
    return Path(os.environ.get("CONTRACT_RESULTS") or ROOT / "var" / "contract")


def tree() -> str:
    """A checksum of all that decides what the results are: both clusters and the contract."""
    digest = hashlib.sha256()
    for top in _TREE:
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()


@dataclass
class Behaviour:
    """One test.

    Attributes:
        outcome: `passed`, `failed` or `skipped`.
        excuses: ids of the lines in `exceptions.toml` without which it would have failed.
    """

    sentence: str
    outcome: str = "skipped"
    excuses: list[str] = field(default_factory=list)
    why: str = ""


@dataclass
class Results:
    """Everything that one run found out.

    Attributes:
        behaviours: by the name of their test, which is the same on both clusters.
        tree: the checksum of what was tried, as the run began.
    """

    version: str
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    tree: str = ""

    def save(self, side: str) -> Path:
        """Write them down in place of those of an earlier run."""
        file = folder() / f"{side}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1, sort_keys=True))
        return file


def load(side: str) -> Results | None:
    """The results of the last whole run on one side, if what was tried then is what is here now."""
    try:
        content = json.loads((folder() / f"{side}.json").read_text())
    except FileNotFoundError:
        return None
    if content.get("tree") != tree():
        return None
    found = {name: Behaviour(**one) for name, one in content["behaviours"].items()}
    return Results(content["version"], found, content["tree"])
