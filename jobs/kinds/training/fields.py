"""Fields of the body that asks for a training: what each takes, refuses and writes.

Nothing here touches the cluster, and only the lookup of a secret touches the database.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, NoReturn

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from jobs.models import UserSecret
from jobs.pod.protocol.placeholders import DEFAULT_FLAGS, FLAGS
from jobs.rules import other_words
from jobs.rules.requests import RoleRequest, parse_indexes
from jobs.rules.topologies import (
    SINGLE,
    TOPOLOGIES,
    Role,
    SuccessPolicy,
    Topology,
    find_role_problem,
    in_role_order,
    joined,
)
from portal.catalog import Catalog, get_catalog
from portal.pools import offered
from portal.web.fields import (
    Body,
    CpuRequest,
    FixedChoice,
    ImageReference,
    Integer,
    MemoryRequest,
    Omissible,
    Text,
)

AnyField = serializers.Field[Any, Any, Any, Any]
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
SUCCESS_POLICIES = tuple(SuccessPolicy)
NO_COMMAND = "Replicas of this role run a program of Homeport; give the command to another role."
NO_SECRET = "You have no such secret."
INDEXES = re.compile(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*", re.ASCII)
MAX_INDEXES_CHARS = 4000
MAX_ENV = 64
MAX_ENV_VALUE_BYTES = 4096
MOST_SHOWN = 5  # wrong parts of one field
MAX_COMMAND_WORDS = 256
MAX_COMMAND_BYTES = 64 * 1024
# These change how the node or the runtime works (CVE-2025-23266 used LD_PRELOAD of an image), or
# are set by the cluster itself.
FORBIDDEN_ENV = re.compile(
    r"LD_.*|NVIDIA_.*|KUBERNETES_.*|HOMEPORT_.*|TF_CONFIG|CUDA_VISIBLE_DEVICES"
)


def refuse(code: str, text: str, at: str | None = None) -> NoReturn:
    """
    Args:
        at: the part of the field that is wrong.
    """
    wrong = [serializers.ErrorDetail(text, code)]
    raise serializers.ValidationError(wrong if at is None else {at: wrong})


def _not_text(
    problem: str, before: str, value: Any, field: AnyField, part: object
) -> serializers.ErrorDetail:
    """What to write in place of a number or the like, which is not taken for text.

    Args:
        problem: the first half of the sentence.
        before: the text in front of the value in the document.
        part: name or index of the value within the field.
    """
    at = f"{field.context.get('at', '')}{field.field_name}.{part}"
    if value is None:
        return serializers.ErrorDetail(f'{problem}; write {before}"" for an empty one.', "invalid")
    if isinstance(value, dict | list):
        return serializers.ErrorDetail(f"{problem}.", "invalid")
    written = field.context.get("written", {}).get(at) or json.dumps(value)
    quoted = json.dumps(written, ensure_ascii=False)
    return serializers.ErrorDetail(f"{problem}; write {before}{quoted}.", "invalid")


def has_controls(text: str) -> bool:
    """NUL and half surrogates cannot be passed to a program; other controls are the user's own."""
    return "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


def _topology_of(field: AnyField) -> Topology:
    """The topology that the body of a field asks for; while there is no such one, a single replica."""
    asked = field.parent.initial_data.get("topology")
    return TOPOLOGIES.get(asked, SINGLE) if isinstance(asked, str) else SINGLE


def _runs_no_command(field: AnyField) -> bool:
    """Whether all replicas that its body asks for run programs of ours."""
    topology, asked = _topology_of(field), field.parent.initial_data.get("replicas")
    given = asked if isinstance(asked, Mapping) else {}
    wanted = [name for name, body in given.items() if not _is_none(body)]
    roles = [role.name for role in topology.roles if role.least or role.name in wanted]
    return all(role.program for role in topology.present(roles))


@extend_schema_field(serializers.ChoiceField(list(TOPOLOGIES)))
class TopologyName(Text):
    """One of the topologies."""

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if name not in TOPOLOGIES:
            *others, last = TOPOLOGIES
            choices = f"This must be {', '.join(others)} or {last}."
            refuse("invalid_choice", other_words.TOPOLOGIES.get(name.lower(), choices))
        return name


@extend_schema_field({"type": "array", "items": {"type": "string"}, "minItems": 1})
class Command(AnyField):
    """What to run, as words."""

    default_error_messages = {
        "required": _('Say what to run, as a list of words: ["python", "train.py"].'),
    }

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        if (data is empty or not data) and _runs_no_command(self):
            return True, ()
        return super().validate_empty_values(empty if data is None else data)

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        if not isinstance(data, list | tuple) or not data:
            self.fail("required")
        wrong = {
            str(number): _not_text("Each word of the command must be text", "", word, self, number)
            for number, word in enumerate(data)
            if not isinstance(word, str)
        }
        if wrong:
            raise serializers.ValidationError(dict(islice(wrong.items(), MOST_SHOWN)))
        if not data[0].strip():
            refuse("invalid", "The first word of the command is empty.")
        size_bytes = sum(len(word.encode("utf-8", "surrogatepass")) for word in data)
        if len(data) > MAX_COMMAND_WORDS or size_bytes > MAX_COMMAND_BYTES:
            most = f"At most {MAX_COMMAND_WORDS} words and {MAX_COMMAND_BYTES // 1024} KiB."
            refuse("too_long", most)
        if any(has_controls(word) for word in data):
            refuse("invalid", "The command has characters that cannot be passed on.")
        return tuple(data)

    def to_representation(self, value: tuple[str, ...]) -> list[str]:
        return list(value)


class _Stated(AnyField):
    """Null and empty text are wrong values, and not the lack of one."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(data) if data is empty else (False, data)


class _Pieces(_Stated, Integer):
    pass


class _Gpus(_Pieces):
    """As many as the catalog lets a replica have. What is kept is shown while the catalog cannot be read, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(most=0, **options)

    def to_internal_value(self, data: Any) -> int:
        self._most = _catalog(self).max_gpu_per_replica
        return super().to_internal_value(data)


class _Cpu(_Stated, CpuRequest):
    pass


class _Memory(_Stated, MemoryRequest):
    pass


class ResourcesSerializer(Body):
    """One role's request; cpu and memory as Kubernetes quantities."""

    hides_missing = False
    default_error_messages = {
        "invalid": _("This must be an object with count, cpu, memory and gpu.")
    }

    def __init__(self, *args: Any, most: int = 1, **options: Any) -> None:
        """
        Args:
            most: how many replicas the role may have.
        """
        super().__init__(*args, **options)
        self._most = most

    def get_fields(self) -> dict[str, AnyField]:
        return {
            "count": _Pieces(least=1, most=self._most, default=1),
            "cpu": _Cpu(source="cpu_millicores", least=10, most=1_000_000, default=1000),
            "memory": _Memory(source="memory_bytes", least=2**25, most=2**44, default=2**30),
            "gpu": _Gpus(source="gpu_count", default=0),
            "command": Command(required=False),
            "image": ImageReference(required=False),
            "min": Integer(source="min_count", most=10**6, required=False, allow_null=True),
            "pool": PoolName(required=False, allow_null=True),
        }


@extend_schema_field(serializers.DictField(child=ResourcesSerializer(), required=False))
class Replicas(AnyField):
    """Role -> what each of its replicas asks for; exactly the roles of the topology."""

    def get_default(self) -> dict[str, Any]:
        return self.to_internal_value(
            {role.name: {} for role in _topology_of(self).roles if role.least}
        )

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(empty if data is None else data)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            refuse("invalid", "This must be an object with one entry for each role.")
        topology = _topology_of(self)
        asked = {str(name): body for name, body in data.items()}
        for role in topology.roles:
            if role.least == 0 and _is_none(asked.get(role.name)):
                asked.pop(role.name, None)
        if problem := find_role_problem(topology, asked):
            refuse("wrong_roles", problem)
        found: dict[str, Any] = {}
        wrong: dict[str, Any] = {}
        for role in topology.present(asked):
            catalog = _catalog(self)
            most = catalog.max_array if topology.is_array else catalog.max_replicas_per_role
            most = role.most or most
            context = {**self.context, "at": f"{self.field_name}.{role.name}."}
            body = ResourcesSerializer(data=asked[role.name], most=most, context=context)
            if not body.is_valid():
                wrong[role.name] = body.errors
            elif role.program and "command" in body.validated_data:
                told = serializers.ErrorDetail(NO_COMMAND, "contradiction")
                wrong[role.name] = {"command": [told]}
            elif problem := _min_problem(topology, role, body.validated_data):
                wrong[role.name] = {"min": [serializers.ErrorDetail(problem, "contradiction")]}
            else:
                found[role.name] = body.validated_data
        if wrong:
            raise serializers.ValidationError(wrong)
        return found

    def to_representation(self, value: Mapping[str, RoleRequest]) -> dict[str, Any]:
        """What is not said of a role is left out."""
        told = {role: written(asked, self._readers) for role, asked in in_role_order(value).items()}
        return {
            role: {name: part for name, part in asked.items() if part is not None}
            for role, asked in told.items()
        }

    @cached_property
    def _readers(self) -> "Readers":
        return readers_of(ResourcesSerializer())


def _min_problem(topology: Topology, role: Role, asked: Mapping[str, Any]) -> str:
    """A sentence when the role cannot go on with so few replicas, else empty."""
    least = asked.get("min_count")
    if least is not None and not role.may_shrink:
        return f"The {role.many} of {topology.name} are all needed; leave this out."
    if least is not None and not 1 <= least <= asked["count"]:
        return f"This must be from 1 to the count of {role.many}, {asked['count']}."
    return ""


def _is_none(body: Any) -> bool:
    """Whether an optional role is asked for with no replica, as a form with empty fields does."""
    count = body.get("count") if isinstance(body, Mapping) else None
    return count in ("0", 0) and not isinstance(count, bool)


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
        topology = _topology_of(self)
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
                    error = _not_text(
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
        return "invalid_name", "A variable's name has letters, digits and underscores only."
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
            if problem := variable_problem(key, topology=_topology_of(self)):
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


@extend_schema_field(serializers.ListField(child=serializers.ChoiceField(FLAGS)))
class ClusterFlags(AnyField):
    """Names of flags to append, in order; true stands for the usual ones."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(empty if data is None else data)

    def to_internal_value(self, data: Any) -> tuple[str, ...]:
        if data is True:
            return DEFAULT_FLAGS
        if data in (False, None):
            return ()
        if not isinstance(data, list | tuple) or not all(flag in FLAGS for flag in data):
            text = f"This must be true, false or some of {', '.join(FLAGS)}."
            refuse("invalid_choice", text)
        return tuple(dict.fromkeys(data))

    def to_representation(self, value: tuple[str, ...]) -> list[str]:
        return list(value)


class Indexes(Text):
    """Of an array, the replicas that run, as the cluster writes indexes: `3,17-20`."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data).replace(" ", "")
        is_known = len(text) <= MAX_INDEXES_CHARS and INDEXES.fullmatch(text)
        if not is_known or not all(map(parse_indexes, text.split(","))):
            refuse("invalid", "Write numbers and ranges from 0 on, for example 3,17-20.")
        return text


@extend_schema_field(serializers.ChoiceField(SUCCESS_POLICIES, allow_null=True))
class SuccessPolicyName(Omissible):
    """Which workers must succeed."""

    def to_internal_value(self, data: Any) -> str:
        if data not in SUCCESS_POLICIES:
            refuse("invalid_choice", "This must be chief, worker0 or all.")
        return str(data)

    def to_representation(self, value: str) -> str:
        return value


class AddressesName(FixedChoice):
    """By what replicas find each other; as the catalog says while nobody chose."""

    def get_default(self) -> Any:
        return _catalog(self).addresses


@extend_schema_field(serializers.CharField(allow_null=True))
class PoolName(Omissible):
    """Nodes to run on: a pool of the catalog that the team may use, or `default`."""

    def to_internal_value(self, data: Any) -> str:
        team = getattr(self.context.get("tenant"), "team", None)
        names = offered(_catalog(self).pools, team.name if team else None)
        if data not in names:
            there = joined(names, "and") if len(names) > 1 else f"{names[0]} alone"
            name = str(data)[:40]
            refuse("not_offered", f"There is no pool {name!r} for this team; there is {there}.")
        return str(data)

    def to_representation(self, value: str) -> str:
        return value


def _catalog(field: AnyField) -> Catalog:
    found: Catalog = field.context.get("catalog") or get_catalog()
    return found


# Of each field, in order: its name, where its value is, and how a body has it.
Readers = list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]


def readers_of(body: serializers.Serializer[Any]) -> Readers:
    return [
        (
            name,
            attrgetter(field.source or name),
            field.to_representation,
        )
        for name, field in body.fields.items()
    ]


def written(value: Any, readers: Readers) -> dict[str, Any]:
    """As DRF's own does, at a part of the price: a page of the list has 200 trainings."""
    found = ((name, read(value), show) for name, read, show in readers)
    return {name: None if part is None else show(part) for name, part, show in found}
