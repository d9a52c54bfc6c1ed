"""Names of Kubernetes objects made from what people typed: always valid, never shared.

Namespaces and pods are DNS labels (RFC 1123, at most 63), Services must start with a letter
(RFC 1035): https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import base64
import re
import unicodedata
from uuid import UUID

SLUG_MAX = 30
LABEL_MAX = 63  # of a DNS label
ROLE_MAX = 9  # "evaluator" is the longest role
REPLICA_PORT = 2222  # of every TensorFlow server; has no meaning outside the job's own pods
# Pods of a Job are called NAME-ROLE-INDEX-xxxxx; `_POD_SUFFIX` is what the cluster appends.
_POD_SUFFIX = 6
_NOT_IN_LABEL = re.compile(r"[^a-z0-9]+")


def slug(text: str, fallback: str, *, max_length: int = SLUG_MAX) -> str:
    """The text as a part of a DNS label that starts with a letter; `fallback` when nothing is left.

    Accents are dropped, every other run of foreign characters becomes one dash.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = _NOT_IN_LABEL.sub("-", plain).strip("-")
    if not words:
        return fallback
    if not words[0].isalpha():
        words = f"{fallback[0]}-{words}"
    return words[:max_length].strip("-")


def namespace_name(username: str, user_id: UUID, number: int = 1) -> str:
    """`u-<slug>-<8 hex of the user's id>`: readable, and no other user's for ever.

    Args:
        number: which namespace of this user it is; from the second on it is appended, so that the
            name of one that was purged is not used again.
    """
    name = f"u-{slug(username, 'user')}-{user_id.hex[:8]}"
    return name if number == 1 else f"{name}-{number}"


def short_id(object_id: UUID) -> str:
    """6 lower-case base32 characters (30 bits) of a uuid."""
    return base64.b32encode(object_id.bytes)[:6].decode().lower()


def job_name(name: str, job_id: UUID, attempt: int = 1) -> str:
    """NAME of a job's objects: `<slug>-<6 base32>`, with `-<attempt>` from the second attempt on.

    Raises:
        ValueError: attempt is not in 1..999, beyond which replica names could outgrow a label.
    """
    if not 1 <= attempt <= 999:
        raise ValueError(f"attempt {attempt} is not in 1..999")
    base = f"{slug(name, 'job')}-{short_id(job_id)}"
    return base if attempt == 1 else f"{base}-{attempt}"


def role_name(kube_name: str, role: str) -> str:
    """Name of the Job that holds the replicas of a role.

    Raises:
        ValueError: the role is longer than `ROLE_MAX`.
    """
    if len(role) > ROLE_MAX:
        raise ValueError(f"role {role!r} is longer than {ROLE_MAX} characters")
    return f"{kube_name}-{role}"


def replica_name(kube_name: str, role: str, index: int) -> str:
    """Host name of one replica, and name of its Deployment where it has one.

    Raises:
        ValueError: its pods' names would not be DNS labels.
    """
    name = f"{role_name(kube_name, role)}-{index}"
    if len(name) + _POD_SUFFIX > LABEL_MAX:
        raise ValueError(f"{name!r} leaves no room for a pod's suffix below {LABEL_MAX} characters")
    return name


def replica_host(kube_name: str, role: str, index: int) -> str:
    """Name under which the other replicas reach one: `NAME-worker-0.NAME`."""
    return f"{replica_name(kube_name, role, index)}.{kube_name}"


def replica_address(kube_name: str, role: str, index: int) -> str:
    """`NAME-worker-0.NAME:2222`."""
    return f"{replica_host(kube_name, role, index)}:{REPLICA_PORT}"


def user_secret_name(secret: str, revision: int) -> str:
    """Name of the object that has one revision of the values of a person's secret."""
    return f"user-{secret}-{revision}"


def secret_of_object(name: str) -> str:
    """What a person calls the secret of such an object."""
    return name.removeprefix("user-").rpartition("-")[0]
