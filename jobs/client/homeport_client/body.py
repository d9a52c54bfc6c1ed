"""Makes the body of a submit from flags, a template and, for an older portal, a file. Pure apart from reading files.

Flags count more than the file. What is in the body is checked by the portal, which has the rules, and which reads
the file, too (`job_file`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import click

from . import yaml_values
from .exits import ClientError, usage_error

MAX_FILE_BYTES = 4 * 1024**2
# Names on the way to each field, and its value; in the order in which they count.
Changes = list[tuple[tuple[str, ...], Any]]
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+)s)?", re.ASCII)


def duration_s(text: str) -> int:
    """Seconds of `90`, `90s`, `15m`, `2h30m`, `1d`. Raises click.BadParameter: none of these."""
    given = text.strip()
    match = _DURATION.fullmatch(f"{given}s" if re.fullmatch(r"\d+", given, re.ASCII) else given)
    if not given or match is None:
        raise click.BadParameter(f"{text!r} is no time; write 90s, 15m, 2h30m or 1d")
    days, hours, minutes, seconds = (int(part[:9]) if part else 0 for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _flag(
    names: str, text: str, metavar: str | None = None, kind: Any = str, *, multiple: bool = False
) -> click.Option:
    return click.Option(names.split(), help=text, metavar=metavar, type=kind, multiple=multiple)


_COUNT = click.IntRange(0, 100_000)
# Path in the body -> its flag.
FIELDS = {
    "name": _flag("--name", "name of the training (the folder's)"),
    "image": _flag("--image", "container image"),
    "topology": _flag(
        "--topology",
        "single, array, tf-ps (with --ps), tf-multiworker, tf-ingraph, torch-ddp, jax, mpi",
    ),
    "replicas.worker.count": _flag("--workers", "workers (1)", "N", _COUNT),
    "replicas.worker.cpu": _flag("--cpu", "CPUs of each worker (1), also as 500m"),
    "replicas.worker.memory": _flag("--memory", "memory of each worker (1Gi)"),
    "replicas.worker.gpu": _flag("--gpu", "GPUs of each worker (0)", "N", _COUNT),
    "replicas.worker.image": _flag("--worker-image", "another image for workers", "IMAGE"),
    "replicas.worker.min": _flag(
        "--min-workers", "torch-ddp goes on with so few (all)", "N", _COUNT
    ),
    "replicas.ps.count": _flag("--ps", "parameter servers", "N", _COUNT),
    "replicas.ps.cpu": _flag("--ps-cpu", "CPUs of each parameter server", "CPU"),
    "replicas.ps.memory": _flag("--ps-memory", "memory of each parameter server", "MEMORY"),
    "replicas.ps.gpu": _flag("--ps-gpu", "GPUs of each parameter server", "N", _COUNT),
    "replicas.ps.image": _flag("--ps-image", "another image for parameter servers", "IMAGE"),
    "parallelism": _flag("--parallelism", "workers of an array at a time (10)", "N", _COUNT),
    "max_failed": _flag("--max-failed", "workers of an array that may fail (all)", "N", _COUNT),
    "indexes": _flag("--indexes", "workers of an array that run: 3,17-20 (all)"),
    "continue_from": _flag(
        "--continue-from", "go on in the log folder of one that has ended", "ID"
    ),
    "shm": _flag("--shm", "size of /dev/shm", "SIZE"),
    "success_policy": _flag("--success-policy", "worker0 or all", "RULE"),
    "priority": _flag("--priority", "low, normal or high (normal)"),
    "pool": _flag("--pool", "nodes to run on: a pool of your admin's"),
    "placement": _flag("--placement", "pack or spread the replicas (any)", "HOW"),
    "restart_policy": _flag("--restart-policy", "never, on_failure or exit_code", "RULE"),
    "retries": _flag("--retries", "new attempts after a failure", "N", _COUNT),
    "deadline_s": _flag("--deadline", "at most so long: 90m, 2d", "TIME", duration_s),
    "starting_deadline_s": _flag(
        "--starting-deadline", "back to the queue after (5m)", "TIME", duration_s
    ),
    "clean_policy": _flag("--clean-policy", "pods at the end: running, all, none", "RULE"),
    "ttl_s": _flag("--ttl", "cleaned up so long after (1d)", "TIME", duration_s),
    "addresses": _flag("--addresses", "how replicas find each other: names or ip", "HOW"),
    "sparse_spec": click.Option(
        ["--sparse-spec"], is_flag=True, default=None, help="tf-ps workers know the servers alone"
    ),
}
# Likewise; one of them stands for all of `source`, with what goes with it.
SOURCES = {
    "source.url": _flag("--source-url", "code from an address instead of PATH", "URL"),
    "source.sha256": _flag("--sha256", "what that code must be", "HEX"),
    "source.git": _flag("--git", "code from a git repository instead of PATH", "URL"),
    "source.ref": _flag("--ref", "its branch, tag or commit (the default branch)"),
    "source.path": _flag(
        "--source-path", "code from the data volume; with --git a folder of that", "/data/.."
    ),
    "source.into": _flag("--into", "folder of /workspace for that repository", "DIR"),
    "source.secret": _flag("--git-secret", "secret of yours that opens that repository", "NAME"),
    "source.bundle": _flag("--bundle", "code that was sent before", "ID"),
}
SECRET = _flag(
    "--secret",
    "a secret of yours as variables, or as files below /secrets/NAME",
    "NAME=env|files",
    multiple=True,
)
OTHERS = (
    _flag("-f --file", "fields of the training in YAML or JSON; - is stdin", "FILE", click.Path()),
    _flag("--env", "a variable; NAME alone takes yours", "NAME=VALUE", multiple=True),
    _flag("--env-file", "NAME=VALUE lines", "FILE", click.Path(), multiple=True),
    _flag("--cluster-flags", "append --ps_hosts and so on; or which of them", "true|NAMES"),
    _flag(
        "--set",
        "any field by its name in REST: replicas.worker.cpu=2",
        "FIELD=VALUE",
        multiple=True,
    ),
    _flag("--template", "a template of yours, or of your team", "NAME"),
    SECRET,
)

# Fields that are not in FIELDS.
WITHOUT_FLAG = frozenset({"command", "source", "env", "secrets", "cluster_flags"})
GOES_WITH = {
    "source.sha256": "source.url",
    **dict.fromkeys(("source.ref", "source.into", "source.secret"), "source.git"),
}


@dataclass
class SubmitRequest:
    """What is to be submitted: the body, and local code that is still to be sent.

    `flag_of` says what a field is called where it was typed.
    """

    body: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    flag_of: Callable[[str], str] = field(default=lambda name: flag_of(name))


def make(
    options: Mapping[str, Any], command: list[str], template: Mapping[str, Any] | None = None
) -> SubmitRequest:
    """The body from `-f` or a template, and flags, by their names, and what stands behind `--`.

    Raises:
        ClientError: something cannot be read, or excludes something else.
    """
    name, said = options["file"], changes(options, command)
    wanted = of_file(name, read_text(name)) if name else SubmitRequest(dict(template or {}))
    wanted.flag_of = name_of_typed(options, command)
    return with_changes(wanted, said, options["path"])


def name_of_typed(options: Mapping[str, Any], command: list[str]) -> Callable[[str], str]:
    """What says a field is called among options: the last one that said it."""
    behind = ["command"] if command else []
    behind += ["source"] if _source(options) else []
    return typed_as(options["set"], but=behind)


def with_changes(wanted: SubmitRequest, said: Changes, code: str | None) -> SubmitRequest:
    """The same with what flags say, and the code at a path.

    Args:
        said: see `changes`.
    """
    body = wanted.body
    for path, value in said:
        if path == ("source",):  # what the file says of it goes
            wanted.path = None
            body.pop("source", None)
        else:
            put_at(body, path, value)
    if code:
        wanted.path = Path(code)
    replicas = body.get("replicas")
    if "topology" not in body and isinstance(replicas, dict) and "ps" in replicas:
        body["topology"] = "tf-ps"
        replicas.setdefault("worker", {})  # it needs both roles in its body
    if wanted.path is not None and "name" not in body:
        body["name"] = name_of(wanted.path)
    return wanted


def changes(options: Mapping[str, Any], command: list[str]) -> Changes:
    """What flags and the words behind `--` say, in the order in which it counts: names on the way, and value.

    Raises:
        ClientError: something cannot be read, or excludes something else.
    """
    found: Changes = []
    for path, flag in FIELDS.items():
        if (value := options[str(flag.name)]) is not None:
            found.append((tuple(path.split(".")), value))
    variables = read_env(options["env_file"], options["env"])
    found += [(("env", name), value) for name, value in variables.items()]
    found += [(("secrets", name), use) for name, use in secret_uses(options["secret"])]
    if options["cluster_flags"] is not None:
        found.append((("cluster_flags",), cluster_flags(options["cluster_flags"])))
    found += [(tuple(path.split(".")), value) for path, value in set_values(options["set"])]
    if command:
        found.append((("command",), command))
    return [*found, *_source(options)]


def put(body: dict[str, Any], path: str, value: Any) -> None:
    """Sets a field by its dotted path; objects on the way are made."""
    put_at(body, path.split("."), value)


def put_at(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Sets a field by the names on the way to it, where objects are made."""
    *folders, last = path
    for name in folders:
        found = body.get(name)
        if not isinstance(found, dict):
            found = body[name] = {}
        body = found
    body[last] = value


def secret_uses(words: Sequence[str]) -> list[tuple[str, str]]:
    """Name and use of `--secret NAME=env|files`; a bare NAME is `env`."""
    parted = [word.partition("=") for word in words]
    return [(name, use or "env") for name, _equals, use in parted]


def put_secrets(body: dict[str, Any], words: Sequence[str]) -> None:
    """What `--secret NAME=env|files` says."""
    for name, use in secret_uses(words):
        put_at(body, ("secrets", name), use)


def set_values(words: Sequence[str]) -> list[tuple[str, Any]]:
    """Path and value of `--set FIELD=VALUE`. Raises ClientError: some cannot be read; it names them all."""
    found, wrong = [], []
    for text in words:
        path, equals, value = text.partition("=")
        if not path or not equals:
            raise usage_error(f"--set {text!r} has no value.", "Write --set FIELD=VALUE.")
        try:
            found.append((path, yaml_values.read_field(path, value)))
        except ClientError as error:
            wrong.append(error.text)
    if wrong:
        raise usage_error("\n".join(wrong))
    return found


def set_fields(body: dict[str, Any], words: Sequence[str]) -> None:
    """What `--set FIELD=VALUE` says."""
    for path, value in set_values(words):
        put(body, path, value)


def read_env(files: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """Variables of `--env-file` and `--env NAME=VALUE`; a bare NAME is taken from our own."""
    found: dict[str, str] = {}
    for name in files:
        for number, line in enumerate(read_text(name).splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, equals, value = line.strip().partition("=")
            if not equals:
                raise usage_error(f"{name}, line {number}, is no NAME=VALUE.")
            found[key.strip()] = value
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            if key not in os.environ:
                raise usage_error(f"--env {key}: there is no such variable here.")
            value = os.environ[key]
        found[key] = value
    return found


def cluster_flags(text: str) -> Any:
    """true, false, or the names between commas."""
    if text in {"true", "false"}:
        return text == "true"
    return [name.strip() for name in text.split(",") if name.strip()]


def _source(options: Mapping[str, Any]) -> Changes:
    """Code by one of PATH, --source-url, --git, --source-path, --bundle; nothing where it is as the file says."""
    given = {path: value for path, flag in SOURCES.items() if (value := options[str(flag.name)])}
    said = ["PATH"] if options["path"] else []
    beside = {*GOES_WITH, "source.path"} if "source.git" in given else GOES_WITH.keys()
    said += [SOURCES[path].opts[0] for path in given if path not in beside]
    if len(said) > 1:
        raise usage_error(f"{' and '.join(said)} name different code.", "Give one of them.")
    for path, other in GOES_WITH.items():
        if path in given and other not in given:
            raise usage_error(f"{SOURCES[path].opts[0]} goes with {SOURCES[other].opts[0]} only.")
    first: Changes = [(("source",), None)] if said else []
    return first + [(tuple(path.split(".")), value) for path, value in given.items()]


def name_of(path: Path) -> str:
    """A name for a training from that of its code."""
    stem = path.resolve().name.partition(".")[0] or "training"
    cleaned = re.sub(r"[^A-Za-z0-9 ._-]+", "-", stem).lstrip(" ._-")[:80].rstrip()
    return cleaned or "training"


# --- a file ---------------------------------------------------------------------------------------


def of_file(name: str, text: str) -> SubmitRequest:
    """A body in YAML or JSON, or what `homeport get -o yaml` wrote; of portals that do not read it themselves.

    `source: {dir: FOLDER}` is local code, relative to the file.

    Raises:
        ClientError: no body is in it.
    """
    body = yaml_values.read(text, name)
    if not isinstance(body, dict):
        raise usage_error(
            f"{name} holds no training.", "It needs fields such as name, image and command."
        )
    if "resources" in body:
        # REST's answer, which has the body's replicas under this name, and much that no body has.
        known = WITHOUT_FLAG.union(path.partition(".")[0] for path in FIELDS)
        body["replicas"] = body["resources"]
        body = {field: value for field, value in body.items() if field in known}
    wanted = SubmitRequest(body)
    source = body.get("source")
    if isinstance(source, dict) and "dir" in source:
        if set(source) != {"dir"} or not isinstance(source["dir"], str):
            raise usage_error(f"{name}: source.dir is a folder's name, and stands alone.")
        del body["source"]
        wanted.path = folder_beside(name, source["dir"])
    return wanted


def folder_beside(name: str, folder: str) -> Path:
    """A folder that a file names, relative to the file; of stdin to where we are."""
    return (Path() if name == "-" else Path(name).parent) / folder


def read_text(name: str) -> str:
    """What stands in a file, or comes by stdin. Raises ClientError: it cannot be read, or is too large."""
    try:
        if name == "-":
            text = sys.stdin.read(MAX_FILE_BYTES + 1)
        else:
            with open(name, encoding="utf-8") as file:
                text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise usage_error(f"{name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise usage_error(f"{name} is not UTF-8 text.") from error
    if len(text) > MAX_FILE_BYTES:
        raise usage_error(f"{name} is too large for a training's description.")
    return text


# --- refusals -------------------------------------------------------------------------------------

_FLAG_OF = {
    **{path: flag.opts[0] for path, flag in {**FIELDS, **SOURCES}.items()},
    "command": "the words behind --",
    "cluster_flags": "--cluster-flags",
}


def flag_of(field: str) -> str:
    """What a field that the portal refuses is called on the command line."""
    path, dot, name = field.partition(".")
    return f"--env {name}" if path == "env" and dot else _FLAG_OF.get(field, field)


def typed_as(
    set_words: Sequence[str], others: Callable[[str], str] = flag_of, but: Sequence[str] = ()
) -> Callable[[str], str]:
    """Likewise, where `--set` said fields.

    Args:
        set_words: of `--set`.
        others: what fields are called that it did not say.
        but: fields that something behind it said again.
    """
    paths = [word.partition("=")[0] for word in set_words]

    def name_of(field: str) -> str:
        said = [path for path in paths if field == path or field.startswith(f"{path}.")]
        if not said or any(field == path or field.startswith(f"{path}.") for path in but):
            return others(field)
        inner = field[len(said[-1]) + 1 :]
        return f"--set {said[-1]}, {inner}" if inner else f"--set {said[-1]}"

    return name_of
