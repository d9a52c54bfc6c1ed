"""The command line and the variables that replicas of a training will really get, for the form.

The rules are those of the runner (`jobs/pod/protocol/placeholders.py`); only the last six characters of
the training's name in the cluster, and IP addresses, are not known before it is submitted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs import command_line
from jobs.kinds.training.fields import MAX_COMMAND_BYTES
from jobs.kinds.training.manifests import environment_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.kinds.training.variables import variable_problem
from jobs.pod.protocol import placeholders
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.rules.hosts import PORT, addresses
from jobs.rules.shell_words import typed_hints, word_hints
from jobs.rules.topologies import get_topology
from portal.cluster import names

UNKNOWN = "xxxxxx"
MAX_SHOWN = 4  # of each role; more lines of the same kind tell nothing new
# Wider than what is filled in, so that a misspelt placeholder is noticed too.
_LIKE_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


@dataclass(frozen=True)
class ReplicaCommand:
    """One command line, and the replicas that get exactly this one."""

    replicas: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class CommandPreview:
    """Command lines, each once; `hidden` counts replicas that are left out."""

    lines: tuple[ReplicaCommand, ...]
    first: str  # the first replica, whose variables these are
    variables: tuple[str, ...]  # `NAME=value`: what its topology tells it
    hidden: int
    unknown_placeholder: str


def _is_allowed(name: str) -> bool:
    """Whether a training may ask for a variable of this name."""
    return variable_problem(name) is None


def hints_of(commands: Iterable[Sequence[str]]) -> list[str]:
    """What of commands a shell would treat otherwise, and what to write, in sentences; each once.

    Of what is too long for a command there are none.
    """
    short = [words for words in commands if sum(map(len, words)) <= MAX_COMMAND_BYTES]
    return list(
        dict.fromkeys(hint for words in short for hint in word_hints(words, is_allowed=_is_allowed))
    )


def hints_of_lines(lines: Iterable[str]) -> list[str]:
    """The same of command lines as a person typed them, which say what is quoted."""
    found: dict[str, None] = {}
    for line in lines:
        if len(line) > MAX_COMMAND_BYTES:
            continue
        with suppress(ValueError):  # a quote is missing, which is reported as an error
            found |= dict.fromkeys(typed_hints(line, is_allowed=_is_allowed))
    return list(found)


def body_hints(body: Mapping[str, Any]) -> list[str]:
    """The same of a body, of which nothing is known yet."""
    replicas = body.get("replicas")
    asked = [*replicas.values()] if isinstance(replicas, Mapping) else []
    given = [one.get("command") for one in [body, *asked] if isinstance(one, Mapping)]
    words = [
        [word for word in one if isinstance(word, str)] for one in given if isinstance(one, list)
    ]
    return hints_of(words)


def command_hints(spec: TrainingSpec) -> list[str]:
    """The same of a training."""
    return hints_of(spec.command_of(role) for role in _own_roles(spec))


def preview_command(spec: TrainingSpec) -> CommandPreview:
    """What will run, in the order of the topology's roles."""
    topology = get_topology(spec.topology)
    kube_name = names.job_name(spec.name, UUID(int=0)).rsplit("-", 1)[0] + f"-{UNKNOWN}"
    counts = {role: asked.count for role, asked in spec.replicas.items()}
    if spec.run_policy.addresses == "ip":
        hosts = addresses(topology, counts, lambda role, index: f"IP-of-{role}-{index}:{PORT}")
    else:
        hosts = addresses(
            topology, counts, lambda role, index: names.replica_address(kube_name, role, index)
        )
    folder = f"/log/jobs/{kube_name}"
    log_dir = spec.log_folder or folder
    is_sparse = spec.run_policy.sparse_spec
    replicas: dict[str, list[str]] = {}
    own = {role: n for role, n in counts.items() if not topology.role(role).program}
    for role, count in own.items():
        for index in spec.indexes_of(role)[:MAX_SHOWN]:
            where = (role, index, hosts, "/data", log_dir)
            context = ReplicaContext(*where, role_count=count, folder=folder, is_sparse=is_sparse)
            words = placeholders.final_command(spec.command_of(role), spec.cluster_flags, context)
            replicas.setdefault(command_line.join(words), []).append(f"{role}-{index}")
    shown = sum(map(len, replicas.values()))
    first = next(iter(spec.replicas))
    first_index = spec.indexes_of(first)[0]
    of_first = ReplicaContext(first, first_index, hosts, "", "", is_sparse=is_sparse)
    return CommandPreview(
        lines=tuple(ReplicaCommand(tuple(who), text) for text, who in replicas.items()),
        first=f"{first}-{first_index}",
        variables=_variables(spec, of_first),
        hidden=sum(len(spec.indexes_of(role)) for role in own) - shown,
        unknown_placeholder=_find_unknown_placeholder(spec),
    )


def _variables(spec: TrainingSpec, context: ReplicaContext) -> tuple[str, ...]:
    given = environment_of(spec)[context.role]
    filled = placeholders.final_environment({}, given, context)
    return tuple(f"{name}={filled[name]}" for name in given if name in filled)


def _own_roles(spec: TrainingSpec) -> list[str]:
    """Whose replicas run a command of the person's."""
    topology = get_topology(spec.topology)
    return [role for role in spec.replicas if not topology.role(role).program]


def _words(spec: TrainingSpec) -> list[str]:
    """Of all commands that run."""
    return [word for role in _own_roles(spec) for word in spec.command_of(role)]


def _find_unknown_placeholder(spec: TrainingSpec) -> str:
    known = placeholders.values(ReplicaContext("worker", 0, {}, "", ""))
    for word in _words(spec):
        for match in _LIKE_PLACEHOLDER.finditer(word):
            if match.group(1).strip() not in known:
                return match.group(0)
    return ""
