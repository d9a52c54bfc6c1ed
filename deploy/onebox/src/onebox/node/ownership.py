"""Whose folder is this? Each volume's folder has a file beside it that says so, and outlives the
cluster's state.

`pvc-UID.owner.json` beside the folder `pvc-UID`: pods see the folder alone. When the state of the
cluster was lost, a claim of the same namespace and name gets its folder again by it. A folder whose
claim was given up is never given to anybody by itself, nor is one that nobody has marked. Blocking.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_SUFFIX = ".owner.json"


@dataclass(frozen=True)
class Owner:
    """To which claim a folder belongs.

    Args:
        made_at: when the volume was made, in RFC 3339.
        is_released: the claim was given up, and the folder was kept for whoever may want it.
    """

    namespace: str
    claim: str
    made_at: str
    is_released: bool = False


def read_owner(folder: Path) -> Owner | None:
    """Whose a folder is; None where no file says so, or none that can be read."""
    try:
        found = json.loads(_file_of(folder).read_text())
        fields = {name: found[name] for name in ("namespace", "claim", "made_at", "is_released")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Owner(**fields)


def write_owner(folder: Path, owner: Owner) -> None:
    """Say whose a folder is; on disk when this returns, and whole at any instant.

    Raises:
        OSError: it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = _file_of(folder)
    unfinished = path.with_suffix(".new")
    with unfinished.open("w") as file:
        json.dump(asdict(owner), file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.chmod(0o600)
    unfinished.rename(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def release(folder: Path) -> None:
    """Note that a folder's claim was given up."""
    owner = read_owner(folder)
    if owner is not None and not owner.is_released:
        write_owner(folder, replace(owner, is_released=True))


def forget(folder: Path) -> None:
    """Remove what is said of a folder that was removed."""
    _file_of(folder).unlink(missing_ok=True)


def find_folder(root: Path, namespace: str, claim: str, used: Collection[str]) -> Path | None:
    """The folder that belongs to a claim and that no volume has; of several the newest.

    Args:
        used: names of the folders that volumes have.
    """
    found = [
        (owner.made_at, folder)
        for folder in _folders(root)
        if folder.name not in used
        and (owner := read_owner(folder)) is not None
        and (owner.namespace, owner.claim) == (namespace, claim)
        and not owner.is_released
    ]
    return max(found)[1] if found else None


def describe_strays(root: Path, used: Collection[str]) -> tuple[str, ...]:
    """A sentence for each folder that no volume has and that is given to nobody by itself."""
    sentences = []
    for folder in _folders(root):
        if folder.name in used:
            continue
        owner = read_owner(folder)
        if owner is None:
            sentences.append(f"{folder} does not say whose it is")
        elif owner.is_released:
            sentences.append(
                f"{folder} was kept when the claim {owner.claim} of {owner.namespace} was given up"
            )
    return tuple(sentences)


def _folders(root: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from sorted(
            path for path in root.iterdir() if path.name.startswith("pvc-") and path.is_dir()
        )


def _file_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _SUFFIX)
