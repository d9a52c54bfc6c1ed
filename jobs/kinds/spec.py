"""The request of a workload, typed: how every kind's spec is kept in a row and read from it.

Name, image and replicas have columns of their own, for queries and lists; the column `spec` holds all
else. What is written down nowhere else is written once.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from jobs.rules.requests import RoleRequest

_COLUMNS = ("name", "image", "replicas")


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the specs of all kinds have. Amounts are whole: millicores, bytes.

    A field that is added needs a default: rows of before do not have it.
    """

    name: str
    image: str
    replicas: dict[str, RoleRequest]  # role -> what each of its replicas asks for

    def image_of(self, role: str) -> str:
        """In what the replicas of a role run."""
        return self.replicas[role].image or self.image

    @property
    def kept_by_role(self) -> Mapping[str, Any]:
        """What the column of replicas keeps of each role besides, for those who read nothing else."""
        return {}


class SpecColumns(Protocol):
    """The columns of `Workload` that keep a spec; naming the model would bring in Django."""

    name: Any
    image: Any
    replicas: Any
    spec: Any


S = TypeVar("S", bound=msgspec.Struct)


def columns_of(spec: WorkloadSpec) -> dict[str, Any]:
    """The columns of `Workload` that keep a spec."""
    values = msgspec.to_builtins(spec)
    columns = {name: values.pop(name) for name in _COLUMNS}
    # Commands may be long, and every list reads the column of replicas.
    commands = {role: asked.pop("command") for role, asked in columns["replicas"].items()}
    if any(commands.values()):
        values["commands"] = commands
    kept = spec.kept_by_role
    columns["replicas"] = {
        role: {name: part for name, part in {**asked, **kept}.items() if part is not None}
        for role, asked in columns["replicas"].items()
    }
    return {**columns, "spec": values}


def spec_of(workload: SpecColumns, kind: type[S]) -> S:
    """The spec that a row keeps; fields that are not known any more are dropped.

    Raises:
        msgspec.ValidationError: the row was changed by hand.
    """
    columns = {name: getattr(workload, name) for name in _COLUMNS}
    if commands := workload.spec.get("commands"):
        asked = columns["replicas"].items()
        columns["replicas"] = {role: {**own, "command": commands.get(role)} for role, own in asked}
    return msgspec.convert({**workload.spec, **columns}, kind)
