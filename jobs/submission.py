"""Turns the body of a submit (REST, form or command line) into a checked `Submission`, or into a
list of errors that name each field.

The rules are those of the public surface: nothing here touches the cluster, and only the lookup of
the bundle touches the database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jobs.checks import (
    Checker,
    has_controls,
    read_amount,
    read_bounded,
    read_image,
    read_name,
)
from jobs.models import Bundle
from jobs.pod.protocol.placeholders import DEFAULT_FLAGS, FLAGS
from jobs.rules.topologies import SINGLE, TOPOLOGIES, SuccessPolicy, Topology, find_role_problem
from portal.catalog import get_catalog
from portal.errors import FieldError, Refused
from tenants.models import Tenant, User

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
SHA256 = re.compile(r"[0-9a-f]{64}")
# Planned, as README.md says: their names are answered, others are unknown.
LATER_TOPOLOGIES = frozenset({"array", "tf-multiworker", "tf-ingraph", "torch-ddp", "mpi", "jax"})
CLEAN_POLICIES = ("running", "all", "none")
SUCCESS_POLICIES = (SuccessPolicy.WORKER0.value, SuccessPolicy.ALL.value)
NO_UPLOAD = FieldError("source.bundle", "not_found", "There is no such upload of yours.")
MAX_ENV = 64
MAX_ENV_VALUE_BYTES = 4096
MAX_COMMAND_WORDS = 256
MAX_COMMAND_BYTES = 64 * 1024
MAX_SECONDS = 90 * 86400
# These change how the node or the runtime works (CVE-2025-23266 used LD_PRELOAD of an image), or
# are set by the cluster itself.
FORBIDDEN_ENV = re.compile(
    r"LD_.*|NVIDIA_.*|KUBERNETES_.*|HOMEPORT_.*|TF_CONFIG|CUDA_VISIBLE_DEVICES"
)


@dataclass(frozen=True)
class RoleRequest:
    """What each replica of one role asks for."""

    count: int
    cpu_millicores: int
    memory_bytes: int
    gpu_count: int

    def as_json(self) -> dict[str, int]:
        return {
            "count": self.count,
            "cpu_millicores": self.cpu_millicores,
            "memory_bytes": self.memory_bytes,
            "gpu_count": self.gpu_count,
        }


@dataclass(frozen=True)
class Submission:
    """A checked request; field for field what `jobs.models.Job` keeps."""

    name: str
    topology: str
    image: str
    command: tuple[str, ...]
    source: dict[str, str] | None
    replicas: dict[str, RoleRequest]
    env: dict[str, str]
    cluster_flags: tuple[str, ...]
    success_policy: str | None
    priority: str
    retries: int
    deadline_s: int | None
    starting_deadline_s: int
    clean_policy: str
    ttl_s: int
    shm_bytes: int | None


def parse(body: Mapping[str, Any], *, tenant: Tenant, user: User) -> Submission:
    """The checked form of a submit body.

    Raises:
        Refused: with every error found, not only the first.
    """
    del user  # per-person limits come with roles; the tenant decides today
    check = Checker(body, tenant, get_catalog())
    unknown = sorted(set(map(str, body)) - _KNOWN)
    if unknown:
        check.refuse(unknown[0][:80], "unknown_field", "There is no such field.")
    topology = _topology(check)
    submission = Submission(
        name=read_name(check),
        topology=topology.name,
        image=read_image(check, offers=check.catalog.offers, listed=check.catalog.images),
        command=_command(check),
        source=_source(check),
        replicas=_replicas(check, topology),
        env=_env(check),
        cluster_flags=_flags(check),
        success_policy=_success_policy(check),
        priority=check.choice("priority", ("normal",), "normal"),
        retries=check.whole("retries", (0, 10), 0) or 0,
        deadline_s=check.whole("deadline_s", (10, MAX_SECONDS), None),
        starting_deadline_s=check.whole("starting_deadline_s", (10, 86400), 300) or 300,
        clean_policy=check.choice("clean_policy", CLEAN_POLICIES, "running"),
        ttl_s=_ttl(check),
        shm_bytes=_shm(check),
    )
    if check.errors:
        raise Refused(check.errors)
    return submission


_KNOWN = set(Submission.__dataclass_fields__) - {"shm_bytes"} | {"shm"}


def _ttl(check: Checker) -> int:
    ttl_s = check.whole("ttl_s", (0, MAX_SECONDS), 86400)
    return 86400 if ttl_s is None else ttl_s


def _topology(check: Checker) -> Topology:
    topology = check.text("topology", default=SINGLE.name)
    if topology in LATER_TOPOLOGIES:
        check.refuse("topology", "not_available_yet", f"{topology} is not available yet.")
    elif topology not in TOPOLOGIES:
        check.refuse("topology", "invalid_choice", f"This must be {' or '.join(TOPOLOGIES)}.")
    return TOPOLOGIES.get(topology, SINGLE)


def _command(check: Checker) -> tuple[str, ...]:
    value = check.body.get("command")
    if not isinstance(value, list | tuple) or not value:
        check.refuse(
            "command",
            "required",
            'Say what to run, as a list of words: ["python", "train.py"].',
        )
        return ()
    if not all(isinstance(word, str) for word in value) or not value[0].strip():
        check.refuse("command", "invalid", "Each word of the command must be text.")
        return ()
    size_bytes = sum(len(word.encode("utf-8", "surrogatepass")) for word in value)
    if len(value) > MAX_COMMAND_WORDS or size_bytes > MAX_COMMAND_BYTES:
        check.refuse(
            "command",
            "too_long",
            f"At most {MAX_COMMAND_WORDS} words and {MAX_COMMAND_BYTES // 1024} KiB.",
        )
        return ()
    if any(has_controls(word) for word in value):
        check.refuse("command", "invalid", "The command has characters that cannot be passed on.")
        return ()
    return tuple(value)


def _source(check: Checker) -> dict[str, str] | None:
    value = check.body.get("source")
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping):
        check.refuse("source", "invalid", "This must be an object with bundle, url or path.")
        return None
    kinds = set(map(str, value)) - {"sha256"}
    if kinds & {"git"}:
        check.refuse("source", "not_available_yet", "Code from git is not available yet.")
        return None
    if len(kinds) != 1 or not kinds <= {"bundle", "url", "path"}:
        check.refuse("source", "invalid", "Give exactly one of bundle, url and path.")
        return None
    kind = kinds.pop()
    if "sha256" in value and kind != "url":
        check.refuse("source.sha256", "invalid", "A sha256 goes with a url only.")
        return None
    given = value[kind]
    if not isinstance(given, str) or not given or len(given) > 2000 or has_controls(given):
        check.refuse(f"source.{kind}", "invalid", "This must be text of at most 2,000 characters.")
        return None
    return _SOURCES[kind](check, given, value.get("sha256"))


def _bundle(check: Checker, given: str, _sha256: Any) -> dict[str, str] | None:
    try:
        bundle = Bundle.objects.filter(tenant=check.tenant, pk=UUID(given)).first()
    except ValueError:
        bundle = None
    if bundle is None:
        check.errors.append(NO_UPLOAD)
        return None
    return {"bundle": str(bundle.pk), "sha256": bundle.sha256, "file_name": bundle.file_name}


def _url(check: Checker, given: str, sha256: Any) -> dict[str, str] | None:
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        has_userinfo = "@" in parts.netloc
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x20\x7f]", given):
        check.refuse(
            "source.url", "invalid_url", "This is not a web address; write https://host/train.py."
        )
        return None
    if has_userinfo:
        check.refuse(
            "source.url",
            "invalid_url",
            "An address with a user name or a password is not taken. Upload the code instead, or "
            "fetch it in your program with a token from a variable.",
        )
        return None
    if sha256 in (None, ""):
        return {"url": given}
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256.lower()):
        check.refuse("source.sha256", "invalid", "A sha256 has 64 digits of 0-9 and a-f.")
        return None
    return {"url": given, "sha256": sha256.lower()}


def _path(check: Checker, given: str, _sha256: Any) -> dict[str, str] | None:
    parts = given.split("/")
    if not (given == "/data" or given.startswith("/data/")) or ".." in parts:
        check.refuse(
            "source.path", "invalid_path", "The path must lie on the data volume: /data/..."
        )
        return None
    return {"path": given}


_SOURCES = {"bundle": _bundle, "url": _url, "path": _path}


def _replicas(check: Checker, topology: Topology) -> dict[str, RoleRequest]:
    roles = topology.role_names
    given = check.body.get("replicas")
    if given is None:
        given = {role: {} for role in roles}
    if not isinstance(given, Mapping):
        check.refuse("replicas", "invalid", "This must be an object with one entry for each role.")
        return {}
    problem = find_role_problem(topology, set(map(str, given)))
    if problem:
        check.refuse("replicas", "wrong_roles", problem)
        return {}
    return {role: _role(check, role, given[role], topology) for role in roles}


def _role(check: Checker, role: str, given: Any, topology: Topology) -> RoleRequest:
    path = f"replicas.{role}"
    if not isinstance(given, Mapping):
        check.refuse(path, "invalid", "This must be an object with count, cpu, memory and gpu.")
        given = {}
    for extra in sorted(set(map(str, given)) - {"count", "cpu", "memory", "gpu"})[:1]:
        check.refuse(f"{path}.{extra[:40]}", "unknown_field", "There is no such field.")
    shape = next(known for known in topology.roles if known.name == role)
    most = shape.max_count or check.catalog.max_replicas_per_role
    return RoleRequest(
        count=read_bounded(check, f"{path}.count", given.get("count", 1), (1, most)),
        cpu_millicores=read_amount(
            check, f"{path}.cpu", given.get("cpu", "1"), "cpu", (10, 1_000_000)
        ),
        memory_bytes=read_amount(
            check, f"{path}.memory", given.get("memory", "1Gi"), "memory", (2**25, 2**44)
        ),
        gpu_count=read_bounded(
            check, f"{path}.gpu", given.get("gpu", 0), (0, check.catalog.max_gpu_per_replica)
        ),
    )


def _env(check: Checker) -> dict[str, str]:
    given = check.body.get("env") or {}
    if not isinstance(given, Mapping):
        check.refuse("env", "invalid", "This must be an object of names and values.")
        return {}
    if len(given) > MAX_ENV:
        check.refuse("env", "too_many", f"At most {MAX_ENV} variables; there are {len(given)}.")
        return {}
    for name, value in given.items():
        problem = _env_problem(name, value)
        if problem:
            # The first is enough: a pasted file of wrong lines would flood the page.
            check.refuse(f"env.{str(name)[:80]}", *problem)
            return {}
    return dict(given)


def _env_problem(name: Any, value: Any) -> tuple[str, str] | None:
    if not isinstance(name, str) or not ENV_NAME.fullmatch(name):
        return "invalid_name", "A variable's name has letters, digits and underscores only."
    if FORBIDDEN_ENV.fullmatch(name):
        return "forbidden_name", f"{name} is set by the cluster and cannot be chosen."
    if not isinstance(value, str):
        return "invalid", "A variable's value must be text."
    if has_controls(value):
        return "invalid", "The value has characters that cannot be passed on."
    if len(value.encode()) > MAX_ENV_VALUE_BYTES:
        return "too_long", f"A value has at most {MAX_ENV_VALUE_BYTES} bytes."
    return None


def _flags(check: Checker) -> tuple[str, ...]:
    given = check.body.get("cluster_flags", False)
    if given is True:
        return DEFAULT_FLAGS
    if given in (False, None):
        return ()
    if not isinstance(given, list | tuple) or not all(flag in FLAGS for flag in given):
        check.refuse(
            "cluster_flags",
            "invalid_choice",
            f"This must be true, false or some of {', '.join(FLAGS)}.",
        )
        return ()
    return tuple(dict.fromkeys(given))


def _success_policy(check: Checker) -> str | None:
    value = check.body.get("success_policy")
    if value in (None, ""):
        return None
    if value == "chief":
        check.refuse(
            "success_policy", "invalid_choice", "No topology with a chief is available yet."
        )
    elif value not in SUCCESS_POLICIES:
        check.refuse("success_policy", "invalid_choice", "This must be worker0 or all.")
    else:
        return str(value)
    return None


def _shm(check: Checker) -> int | None:
    value = check.body.get("shm")
    if value in (None, ""):
        return None
    return read_amount(check, "shm", value, "memory", (2**20, 2**40))
