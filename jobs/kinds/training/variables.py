"""Fields of the body that asks for a training: its variables, and the secrets that its program is given.

Nothing here touches the cluster, and only the lookup of a secret touches the database.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from jobs.kinds.training.fields import (
    MOST_SHOWN,
    AnyField,
    has_controls,
    not_text,
    refuse,
    topology_of,
)
from jobs.models import UserSecret
from jobs.rules.topologies import SINGLE, Topology
from portal.characters import first_outside

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NAME_CHARS = frozenset(f"{string.ascii_letters}{string.digits}_")
_NAME_RULE = "A variable's name begins with a letter from a to z or A to Z or an underscore, and has at most 128 of these and digits"
NO_SECRET = "You have no such secret."
MAX_ENV = 64
MAX_ENV_VALUE_BYTES = 4096
# These change how the node or the runtime works (CVE-2025-23266 used LD_PRELOAD of an image), or
# are set by the cluster itself.
FORBIDDEN_ENV = re.compile(
    r"LD_.*|NVIDIA_.*|KUBERNETES_.*|HOMEPORT_.*|TF_CONFIG|CUDA_VISIBLE_DEVICES"
)


@extend_schema_field(serializers.DictField(child=serializers.CharField()))
class Variables(AnyField):
    """Names and values; what is falsy stands for none."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(data or empty)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, Mapping):
            refuse("invalid", "This must be an object of names and values.")
        if len(data) > MAX_ENV:
            refuse("too_many", f"At most {MAX_ENV} variables; there are {len(data)}.")
        topology = topology_of(self)
        wrong = {}
        for name, value in data.items():
            if problem := variable_problem(name, value, topology):
                code, text = problem
                error = serializers.ErrorDetail(text, code)
                if (
                    isinstance(name, str)
                    and ENV_NAME.fullmatch(name)
                    and not isinstance(value, str)
                ):
                    error = not_text(
                        "A variable's value must be text", f"{name}: ", value, self, name
                    )
                wrong[str(name)[:80]] = [error]
            if len(wrong) == MOST_SHOWN:  # a pasted file of wrong lines would flood the page
                break
        if wrong:
            raise serializers.ValidationError(wrong)
        return dict(data)

    def to_representation(self, value: Mapping[str, str | None]) -> dict[str, str | None]:
        return dict(value)


def variable_problem(
    name: Any, value: Any = "", topology: Topology = SINGLE
) -> tuple[str, str] | None:
    """Why a program cannot have such a variable, as code and text; None: it can."""
    if not isinstance(name, str) or not ENV_NAME.fullmatch(name):
        outside = first_outside(name, _NAME_CHARS) if isinstance(name, str) else ""
        told = f"; {outside} is none of these." if outside else "."
        return "invalid_name", f"{_NAME_RULE}{told}"
    if name in topology.env:
        return "forbidden_name", f"{name} is set by the topology {topology.name}."
    if FORBIDDEN_ENV.fullmatch(name):
        return "forbidden_name", f"{name} is set by the cluster and cannot be chosen."
    if not isinstance(value, str):
        return "invalid", "A variable's value must be text."
    if has_controls(value):
        return "invalid", "The value has characters that cannot be passed on."
    if len(value.encode()) > MAX_ENV_VALUE_BYTES:
        return "too_long", f"A value has at most {MAX_ENV_VALUE_BYTES} bytes."
    return None


@extend_schema_field(serializers.DictField(child=serializers.ChoiceField(["env", "files"])))
class SecretUses(AnyField):
    """Names of own secrets, each with what the program is given: its values as variables or as files."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(data or empty)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, Mapping):
            refuse("invalid", "This must be an object of names with env or files.")
        env = self.parent.initial_data.get("env")
        variables = set(env) if isinstance(env, Mapping) else set()
        for name, use in data.items():
            if use not in ("env", "files"):
                refuse("invalid_choice", "This must be env or files.", str(name)[:80])
            keys = usable_secret(self, name, str(name)[:80]).keys
            if use == "env":
                self._check_variables(name, keys, variables)
                variables = variables | set(keys)
        return dict(data)

    def _check_variables(self, name: str, keys: list[str], others: set[str]) -> None:
        for key in keys:
            if problem := variable_problem(key, topology=topology_of(self)):
                code, text = problem
                refuse(code, f"{text} Use this secret as files, or rename {key}.", name)
            if key in others:
                text = f"{key} is also a variable, or a key of another secret that is used so."
                refuse("duplicate_name", text, name)

    def to_representation(self, value: Mapping[str, str]) -> dict[str, str]:
        return dict(value)


def usable_secret(field: AnyField, name: Any, at: str) -> UserSecret:
    """The secret of this name of the person who asks.

    Args:
        at: the part of the field that names it.

    Raises:
        ValidationError: there is none, it is for pulling images, or the cluster has lost it.
    """
    rows = UserSecret.objects.filter(tenant=field.context["tenant"], is_deleted=False)
    # PostgreSQL does not look for a text with NUL in it.
    wanted = "" if has_controls(str(name)) else str(name)[:80]
    row: UserSecret | None = rows.filter(name=wanted).first()
    if row is None:
        refuse("not_found", NO_SECRET, at)
    if row.kind != UserSecret.Kind.GENERIC:
        text = "This secret is for pulling images: every pod has it, and no program is given it."
        refuse("invalid", text, at)
    if row.state == "lost":
        text = "The cluster no longer has this secret. Enter its values again on the page Secrets."
        refuse("secret_gone", text, at)
    return row
