"""Fields of serializers for what people send: DRF's own are laxer, and have other codes."""

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from portal import quantity


class _Strict(serializers.Field[Any, Any, Any, Any]):
    """A null is a wrong value like others, and not the lack of one."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return (False, data) if data is None else super().validate_empty_values(data)


class Quantity(_Strict):
    """A number, or text as Kubernetes writes it, from 0 to `most`; its value is whole."""

    default_error_messages = {
        "invalid_quantity": _("This must be a number or text such as 500m or 16Gi."),
        "out_of_range": _("This must be from 0 to {most}."),
    }
    parse: Callable[[str], int]
    show: Callable[[int], str]

    def __init__(self, *, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, str | int | float):
            self.fail("invalid_quantity")
        try:
            amount = self.parse(str(data))
        except quantity.QuantityError as error:
            raise serializers.ValidationError(str(error), "invalid_quantity") from error
        if not 0 <= amount <= self._most:
            self.fail("out_of_range", most=self.show(self._most))
        return amount


class Cpu(Quantity):
    """Millicores: "500m" or 2."""

    parse = staticmethod(quantity.cpu_millicores)
    show = staticmethod(quantity.cpu_text)


class Memory(Quantity):
    """Bytes: "16Gi"."""

    parse = staticmethod(quantity.memory_bytes)
    show = staticmethod(quantity.memory_text)


class Whole(Quantity):
    """Pieces: 7 or "7"."""

    parse = staticmethod(quantity.count)
    show = str


class TextLine(_Strict):
    """One line of text, or nothing. Strict: a number is no text."""

    default_error_messages = {
        "invalid": _("This must be one line of text."),
        "too_long": _("At most {most} characters."),
    }

    def __init__(self, *, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or not data.isprintable():
            self.fail("invalid")
        if len(data) > self._most:
            self.fail("too_long", most=self._most)
        return data.strip()
