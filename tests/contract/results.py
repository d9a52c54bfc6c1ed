"""What a run of the contract found out on one cluster, kept for the report."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """Where the results lie: CONTRACT_RESULTS, else in the folder of this checkout's state."""
    return Path(os.environ.get("CONTRACT_RESULTS") or ROOT / "var" / "contract")


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
    """

    version: str
    behaviours: dict[str, Behaviour] = field(default_factory=dict)

    def save(self, side: str) -> Path:
        """Write them down in place of those of an earlier run."""
        file = folder() / f"{side}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1, sort_keys=True))
        return file


def load(side: str) -> Results | None:
    """The results of the last whole run on one side."""
    try:
        content = json.loads((folder() / f"{side}.json").read_text())
    except FileNotFoundError:
        return None
    found = {name: Behaviour(**one) for name, one in content["behaviours"].items()}
    return Results(content["version"], found)
