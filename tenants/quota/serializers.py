"""Amounts of quotas and budgets as people send them, on pages and by REST."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from portal import quantity
from portal.errors import FieldError, Refused
from portal.web.rest import read
from tenants.quota.rules import COLUMNS, MOST, amount_text

_READ = {"cpu": quantity.cpu_millicores, "memory": quantity.memory_bytes}


class AmountField(serializers.Field[int, Any, Any, Any]):
    """A number or text as Kubernetes writes it ("500m", "16Gi", 2).

    Its value is cpu in millicores, memory in bytes, else pieces.
    """

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__(**options)
        self._kind = kind

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return (False, data) if data is None else super().validate_empty_values(data)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, str | int | float):
            text = _("This must be a number or text such as 500m or 16Gi.")
            raise ValidationError(text, "invalid_quantity")
        try:
            amount = _READ.get(self._kind, quantity.count)(str(data))
        except quantity.QuantityError as error:
            raise ValidationError(str(error), "invalid_quantity") from error
        if not 0 <= amount <= MOST[self._kind]:
            most = amount_text(self._kind, MOST[self._kind])
            text = _("This must be from 0 to %(most)s.") % {"most": most}
            raise ValidationError(text, "out_of_range")
        return amount


class QuotaSerializer(serializers.Serializer[Any]):
    """Some amounts by their kinds; at least one, and no other names."""

    def __init__(self, given: Any) -> None:
        super().__init__(data=given)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {kind: AmountField(kind, required=False) for kind in COLUMNS}

    def read(self, *, prefix: str = "quota.") -> dict[str, int]:
        """Kind -> amount, see `AmountField`; kinds that were not given are absent.

        Args:
            prefix: goes before each kind in the names of fields that errors tell.

        Raises:
            Refused: with every error found, in the order in which they were given.
        """
        given = self.initial_data
        if not isinstance(given, Mapping) or not given:
            text = _("Give an object with some of %(kinds)s.") % {"kinds": ", ".join(COLUMNS)}
            raise Refused([FieldError(prefix.rstrip("."), "invalid", text)])
        values, found = {}, {}
        try:
            values = read(self)
        except Refused as refusal:
            found = {error.field: error for error in refusal.errors}
        errors = []
        for kind in map(str, given):
            if kind not in COLUMNS:
                text = _("There is no such field.")
                errors.append(FieldError(f"{prefix}{kind[:40]}", "unknown_field", text))
            elif kind in found:
                errors.append(FieldError(prefix + kind, found[kind].code, found[kind].text))
        if errors:
            raise Refused(errors)
        return {str(kind): values[kind] for kind in given}
