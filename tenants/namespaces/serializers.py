"""The words that people send with a verb: pages and REST read them by the same serializer."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from portal.errors import FieldError, Refused
from portal.web.rest import read
from tenants.namespaces.actions import WHY_MAX


class LineField(serializers.Field[str, Any, str, Any]):
    """One line of text, or nothing. Strict: a number is no text."""

    default_error_messages = {"invalid": _("This must be one line of text.")}

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        if data is None:
            self.fail("invalid")
        return super().validate_empty_values(data)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or not data.isprintable():
            self.fail("invalid")
        if len(data) > WHY_MAX:
            text = str(_("At most %(most)s characters.")) % {"most": WHY_MAX}
            raise ValidationError(text, "too_long")
        return data.strip()


class WordsSerializer(serializers.Serializer[Any]):
    """Some words by their names, all optional; what was not sent is empty. Other names are refused."""

    def __init__(self, names: Iterable[str], given: Any) -> None:
        self._names = tuple(names)
        super().__init__(data=given)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {name: LineField(default="") for name in self._names}

    def read(self) -> dict[str, str]:
        """The words.

        Raises:
            Refused: unknown names, other kinds of values, control characters, too much.
        """
        given = self.initial_data
        if not isinstance(given, Mapping):
            raise Refused(str(_("Send an object.")), "invalid")
        text = str(_("There is no such field."))
        unknown = sorted(set(map(str, given)) - set(self._names))[:5]
        errors = [FieldError(name[:80], "unknown_field", text) for name in unknown]
        try:
            words = read(self)
        except Refused as refusal:
            raise Refused([*errors, *refusal.errors]) from refusal
        if errors:
            raise Refused(errors)
        return dict(words)
