"""What a training is asked for by: its one typed specification."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from jobs.kinds.spec import WorkloadSpec
from jobs.rules.queue.state import HIGH, LOW, NORMAL
from jobs.rules.requests import indexes_of
from jobs.rules.topologies import get_topology

KEY = "job"
PRIORITIES = (LOW, NORMAL, HIGH)
GRACE_S = 120  # between SIGTERM and SIGKILL: time for a checkpoint and the upload of the log's end
# What has a deadline gives its resources back within a minute of it, whatever its program does.
DEADLINE_GRACE_S = 60
AT_ONCE = 10  # replicas of an array that says nothing of it


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a training ends, and what comes then: the part that planning reads, small on purpose."""

    success_policy: str | None = None  # worker0 | all; None: the topology's default
    restart_policy: str = "on_failure"  # one of jobs/rules/restarts.py
    retries: int = 0
    deadline_s: int | None = None
    starting_deadline_s: int = 300
    clean_policy: str = "running"  # running | all | none
    ttl_s: int = 86400
    addresses: str = "names"  # names | ip: by what its replicas find each other
    sparse_spec: bool = False  # each worker knows itself and the servers, and is replaced alone

    @property
    def pod_grace_s(self) -> int:
        """Seconds from SIGTERM to SIGKILL of each pod."""
        return GRACE_S if self.deadline_s is None else DEADLINE_GRACE_S


def longest_grace_s(topology: str, roles: Collection[str]) -> int:
    """For how long its room may be held when it has been told to end."""
    serving = get_topology(topology).serving(roles)
    return max([GRACE_S, *(role.outlives_s for role in serving)])


def lasts_s(run_policy: Mapping[str, Any], topology: str, roles: Collection[str]) -> int | None:
    """From admission until its room is free at the latest, in seconds; None: it has no deadline.

    Start-up, back-off and later attempts are within it.
    """
    policy = msgspec.convert(run_policy, RunPolicy)
    if policy.deadline_s is None:
        return None
    return policy.starting_deadline_s + policy.deadline_s + longest_grace_s(topology, roles)


class TrainingSpec(WorkloadSpec, frozen=True, kw_only=True):
    """A checked request for a training."""

    topology: str
    command: tuple[str, ...]
    # {"bundle": id, "sha256", "file_name"} | {"url", "sha256"?} | {"path"}
    # | {"git", "ref"?, "path"?, "into"?, "secret"?} | None
    source: dict[str, str] | None = None
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}  # name -> env | files
    cluster_flags: tuple[str, ...] = ()  # names of flags to append, in order
    shm_bytes: int | None = None
    # Of an array: how many of its replicas run at a time (None: at most AT_ONCE), how many may fail
    # before the others are stopped (None: all run), and which run, as "3,17-20" (None: all).
    parallelism: int | None = None
    max_failed: int | None = None
    indexes: str | None = None
    run_policy: RunPolicy = RunPolicy()
    priority: str = NORMAL  # low | normal | high
    pool: str | None = None  # of the catalog, or `default`; None: the first that has room
    placement: str = "any"  # any | pack | spread
    # The id of a training in whose log folder it goes on, and that folder, which outlives the other one.
    continue_from: str | None = None
    log_folder: str = ""  # "": its own

    @property
    def kept_by_role(self) -> Mapping[str, Any]:
        """What admission and planning read of an array."""
        if not get_topology(self.topology).is_array:
            return {}
        most = min(self.parallelism or AT_ONCE, len(self.indexes_of("worker")))
        return {"at_once": most, "indexes": self.indexes}

    def indexes_of(self, role: str) -> Sequence[int]:
        """The replicas of a role that run."""
        return indexes_of({"count": self.replicas[role].count, "indexes": self.indexes})

    def command_of(self, role: str) -> tuple[str, ...]:
        """What the replicas of a role run."""
        return self.replicas[role].command or self.command

    @property
    def least(self) -> dict[str, int]:
        """Role -> fewest replicas, of those that may go on with fewer than all."""
        return {
            role: asked.min_count
            for role, asked in self.replicas.items()
            if asked.min_count is not None
        }

    @property
    def git_secret(self) -> str:
        """The name of the secret by which `fetch` reads the repository; empty: none."""
        return (self.source or {}).get("secret", "")

    @property
    def named_secrets(self) -> frozenset[str]:
        """Names of all secrets that it asks for."""
        return frozenset(self.secrets) | ({self.git_secret} - {""})
