"""Amounts of quotas and budgets as people send them, on pages and by REST."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import SkipField, empty

from portal.web.fields import Body, Cpu, Memory, Quantity, TrueOrFalse, Whole
from tenants import usage
from tenants.models import QUOTA_COLUMNS, WEIGHT_MOST
from tenants.quota.rules import MOST, amount_text

# Where a form says which pieces it counts; else they are called as on the bars.
_TITLES = {"cpu": gettext_lazy("CPU cores"), "gpu": gettext_lazy("GPUs")}
_FIELDS: dict[str, type[Quantity]] = {"cpu": Cpu, "memory": Memory}


def amount_field(kind: str, **options: Any) -> Quantity:
    """What reads a kind's amount: cpu in millicores, memory in bytes, else pieces."""
    return _FIELDS.get(kind, Whole)(most=MOST[kind], **options)


class QuotaField(serializers.Serializer[Any]):
    """cpu and memory as Kubernetes writes them, the others as numbers."""

    cpu = serializers.CharField()
    memory = serializers.CharField()
    gpu = serializers.IntegerField()
    pods = serializers.IntegerField()
    nodeports = serializers.IntegerField()


def amount_json(kind: str, amount: int | None) -> str | int | None:
    """An amount as REST shows it: text as Kubernetes writes it, or pieces; None: no limit."""
    return amount if kind not in _FIELDS or amount is None else amount_text(kind, amount)


def quota_json(amounts: Mapping[str, int]) -> dict[str, Any]:
    """Amounts (millicores, bytes, pieces) as REST shows them."""
    return {kind: amount_json(kind, amounts.get(kind, 0)) for kind in QUOTA_COLUMNS}


@extend_schema_field(QuotaField)
class QuotaSerializer(Body):
    """Some amounts by their kinds, at least one; see `amount_field`."""

    default_error_messages = {"nothing": gettext_lazy("Give an object with some of {kinds}.")}

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            kind: amount_field(kind, required=False, label=_TITLES.get(kind, usage.TITLES[kind]))
            for kind in QUOTA_COLUMNS
        }

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        if (data is None or data is empty) and not self.required:
            raise SkipField
        return False, data

    def to_internal_value(self, data: Any) -> dict[str, int]:
        if not isinstance(data, Mapping) or not data:
            text = self.error_messages["nothing"].format(kinds=", ".join(QUOTA_COLUMNS))
            raise serializers.ValidationError(text, "invalid")
        return super().to_internal_value(data)


@extend_schema_field(QuotaField(partial=True))
class _SomeOfQuota(QuotaSerializer):
    """As the OpenAPI document has it of a change."""


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": WEIGHT_MOST})
class WeightField(Whole):
    """The weight of a team or namespace."""

    def __init__(self) -> None:
        label = gettext_lazy("Weight")
        super().__init__(least=1, most=WEIGHT_MOST, required=False, label=label)


def confirm_field() -> TrueOrFalse:
    """Whether what takes from namespaces by weight is done all the same."""
    return TrueOrFalse(
        required=False,
        default=False,
        source="is_confirmed",
        help_text="also where a namespace by weight would have nothing, or less than it uses",
    )


class QuotaChangeSerializer(Body):
    """Some or all of the quota, the weight, and whether that is the quota."""

    quota = _SomeOfQuota(required=False)
    weight = WeightField()
    quota_by_weight = serializers.BooleanField(required=False, label=gettext_lazy("Quota"))
    confirm = confirm_field()
    dry_run = TrueOrFalse(
        required=False, default=False, source="is_dry", help_text="only what it would be"
    )

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        given = data if isinstance(data, Mapping) else {}
        # Something must be sent, and while it was the quota alone its lack was told so.
        self.fields["quota"].required = not given.keys() & {"weight", "quota_by_weight"}
        return super().to_internal_value(given)
