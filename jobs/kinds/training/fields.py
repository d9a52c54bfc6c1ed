"""Fields of the body that asks for a training: what each takes, refuses and writes.

Nothing here touches the cluster or the database.
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
SUCCESS_POLICIES = tuple(SuccessPolicy)
NO_COMMAND = "Replicas of this role run a program of Homeport; give the command to another role."
INDEXES = re.compile(r"\d{1,3}(-\d{1,3})?(,\d{1,3}(-\d{1,3})?)*", re.ASCII)
MAX_INDEXES_CHARS = 4000
MOST_SHOWN = 5  # wrong parts of one field
MAX_COMMAND_WORDS = 256
MAX_COMMAND_BYTES = 64 * 1024


def refuse(code: str, text: str, at: str | None = None) -> NoReturn:
    """
    Args:
        at: the part of the field that is wrong.
    """
    wrong = [serializers.ErrorDetail(text, code)]
    raise serializers.ValidationError(wrong if at is None else {at: wrong})


def not_text(
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


def topology_of(field: AnyField) -> Topology:
    """The topology that the body of a field asks for; while there is no such one, a single replica."""
    asked = field.parent.initial_data.get("topology")
    return TOPOLOGIES.get(asked, SINGLE) if isinstance(asked, str) else SINGLE


def _runs_no_command(field: AnyField) -> bool:
    """Whether all replicas that its body asks for run programs of ours."""
    topology, asked = topology_of(field), field.parent.initial_data.get("replicas")
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
            str(number): not_text("Each word of the command must be text", "", word, self, number)
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
            {role.name: {} for role in topology_of(self).roles if role.least}
        )

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(empty if data is None else data)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            refuse("invalid", "This must be an object with one entry for each role.")
        topology = topology_of(self)
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
