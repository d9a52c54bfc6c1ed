"""The committed transcripts: one YAML file for each script, recorded on upstream."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.contract.kube import Json

FOLDER = Path(__file__).parent / "transcripts"


class _Dumper(yaml.SafeDumper):
    """Block style without anchors: each step can be read by itself."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def file_of(name: str) -> Path:
    """Where the transcript of a script lies."""
    topic, _, rest = name.partition(".")
    return FOLDER / topic / f"{rest}.yaml"


def recorded() -> set[str]:
    """Names of all transcripts."""
    return {f"{file.parent.name}.{file.stem}" for file in FOLDER.glob("*/*.yaml")}


def load(name: str) -> list[Json]:
    """The steps of a transcript.

    Raises:
        FileNotFoundError: it was not recorded yet.
    """
    return yaml.load(file_of(name).read_text(), yaml.CSafeLoader)["steps"]


def save(name: str, sentence: str, version: str, steps: list[Json]) -> None:
    """Write a transcript.

    Args:
        version: of the cluster that it was recorded on, such as "v1.36.3".
    """
    file = file_of(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"sentence": sentence, "recorded on": version, "steps": steps}
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    file.write_text(text)
