"""The definitions of images: TOML files that map a reference to what is installed for it.

The shipped ones are `onebox/images/images.toml`, whose comment says what may stand in such a
file; an operator's own `<home>/images/*.toml` are merged, and win where both name a reference.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onebox.node.spec import Mount

SHIPPED = Path(__file__).resolve().parents[1] / "images" / "images.toml"

# The grammar of references: https://github.com/distribution/reference/blob/main/reference.go
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<registry>localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:\d+/))"
    rf"(?P<port>:\d+)?/)?"
    rf"(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_KNOWN_FIELDS = frozenset(
    {
        "reference",
        "requirements",
        "python",
        "programs",
        "env",
        "mounts",
        "working_dir",
        "host_files",
        "packages",
    }
)


class DefinitionError(ValueError):
    """A definition file is wrong; the text names the file and what is wrong."""


@dataclass(frozen=True)
class HostFile:
    """What the image needs of this machine's own files, and the command that installs it."""

    path: str
    install: str


@dataclass(frozen=True)
class Definition:
    """One image.

    Args:
        requirements: the text of its requirements file; "" is a bare Python.
        python: the version it must have ("3.11"); "" is any.
        programs: instead of a Python, nothing but these programs of the host; None: a Python.
        mounts: folders of this machine that the image contains.
        packages: folders of this machine's packages, looked through after what is installed.
    """

    reference: str
    requirements: str = ""
    python: str = ""
    programs: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    working_dir: str = "/"
    host_files: tuple[HostFile, ...] = ()
    packages: tuple[str, ...] = ()


def normalize_reference(reference: str) -> str | None:
    """Return the full form ("python" -> "docker.io/library/python:latest"); None: malformed."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    registry, path = match["registry"] or "docker.io", match["path"]
    if registry == "index.docker.io":
        registry = "docker.io"
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    full = f"{registry}{match['port'] or ''}/{path}"
    if tag:
        full += f":{tag}"
    if match["digest"]:
        full += f"@{match['digest']}"
    return full


def load_definitions(path: Path) -> dict[str, Definition]:
    """Return the definitions of one file, by normalized reference.

    Raises:
        DefinitionError: the file, or a file that it names, is missing or wrong.
    """
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DefinitionError(f"{path}: {error}") from error
    entries = content.get("image")
    if not isinstance(entries, list) or set(content) != {"image"}:
        raise DefinitionError(f"{path}: it must hold [[image]] tables and nothing else")
    found: dict[str, Definition] = {}
    for entry in entries:
        definition = _parse_entry(path, entry)
        full = normalize_reference(definition.reference)
        if full is None:
            raise DefinitionError(f'{path}: "{definition.reference}" is not an image reference')
        found[full] = definition
    return found


def _parse_entry(path: Path, entry: Mapping[str, Any]) -> Definition:
    reference = entry.get("reference")
    if not isinstance(reference, str):
        raise DefinitionError(f"{path}: an [[image]] has no reference")
    unknown = sorted(set(entry) - _KNOWN_FIELDS)
    if unknown:
        known = ", ".join(sorted(_KNOWN_FIELDS))
        text = f'{path}: "{reference}" has the unknown field "{unknown[0]}"; there are {known}'
        raise DefinitionError(text)
    programs = entry.get("programs")
    try:
        return Definition(
            reference=reference,
            requirements=_read_requirements(path, entry.get("requirements")),
            python=str(entry.get("python", "")),
            programs=None if programs is None else tuple(str(name) for name in programs),
            env={str(key): str(value) for key, value in entry.get("env", {}).items()},
            mounts=_parse_mounts(path, entry.get("mounts", ())),
            working_dir=str(entry.get("working_dir", "/")),
            host_files=tuple(
                HostFile(str(one["path"]), str(one["install"]))
                for one in entry.get("host_files", ())
            ),
            packages=_parse_packages(path, entry.get("packages", [])),
        )
    except (OSError, TypeError, KeyError, AttributeError, ValueError) as error:
        raise DefinitionError(f'{path}: "{reference}": {error}') from error


def _read_requirements(path: Path, name: str | None) -> str:
    return "" if name is None else (path.parent / name).read_text()


def _parse_packages(path: Path, given: Sequence[str]) -> tuple[str, ...]:
    """Read folders; a relative one lies beside the definition file."""
    if not isinstance(given, list):
        raise TypeError("packages is not a list of folders")
    return tuple(str(path.parent / folder) for folder in given)


def _parse_mounts(path: Path, entries: Sequence[Mapping[str, str]]) -> tuple[Mount, ...]:
    """Read {source, path} tables; a relative source lies beside the definition file."""
    return tuple(
        Mount(source=str(path.parent / entry["source"]), path=entry["path"], read_only=True)
        for entry in entries
    )
