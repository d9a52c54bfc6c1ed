"""Amounts of quotas and budgets as people send them, on pages and by REST."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import serializers

from portal.errors import FieldError, Refused
from portal.web.fields import Cpu, Memory, Quantity, Whole
from portal.web.rest import read
from tenants.quota.rules import COLUMNS, MOST

TITLES = {
    "cpu": gettext_lazy("CPU cores"),
    "memory": gettext_lazy("Memory"),
    "gpu": gettext_lazy("GPUs"),
    "pods": gettext_lazy("Pods"),
    "nodeports": gettext_lazy("Open ports of notebooks and TensorBoards"),
}
_FIELDS: dict[str, type[Quantity]] = {"cpu": Cpu, "memory": Memory}


def amount_field(kind: str, **options: Any) -> Quantity:
    """What reads a kind's amount: cpu in millicores, memory in bytes, else pieces."""
    return _FIELDS.get(kind, Whole)(most=MOST[kind], **options)


class QuotaSerializer(serializers.Serializer[Any]):
    """Some amounts by their kinds; at least one, and no other names."""

    def __init__(self, given: Any = None) -> None:
        super().__init__(data=given)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {kind: amount_field(kind, required=False, label=TITLES[kind]) for kind in COLUMNS}

    def read(self) -> dict[str, int]:
        """Kind -> amount, see `amount_field`; kinds that were not given are absent.

        Raises:
            Refused: with every error found, in the order in which they were given.
        """
        given = self.initial_data
        if not isinstance(given, Mapping) or not given:
            text = _("Give an object with some of %(kinds)s.") % {"kinds": ", ".join(COLUMNS)}
            raise Refused([FieldError("quota", "invalid", text)])
        values, found = {}, {}
        try:
            values = read(self)
        except Refused as refusal:
            found = {error.field: error for error in refusal.errors}
        errors = []
        for kind in map(str, given):
            if kind not in COLUMNS:
                text = _("There is no such field.")
                errors.append(FieldError(f"quota.{kind[:40]}", "unknown_field", text))
            elif kind in found:
                errors.append(FieldError(f"quota.{kind}", found[kind].code, found[kind].text))
        if errors:
            raise Refused(errors)
        return {str(kind): values[kind] for kind in given}
