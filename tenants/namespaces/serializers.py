"""The words that people send with a verb: pages and REST read them by the same serializer."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from portal.errors import FieldError, Refused
from portal.web.fields import TextLine
from portal.web.rest import read
from tenants.namespaces.actions import WHY_MAX

# What each verb takes, all of it optional here: the action says which it needs.
VERB_FIELDS: dict[str, tuple[str, ...]] = {
    "suspend": ("why",),
    "resume": (),
    "delete": ("confirm", "data", "why"),
    "restore": (),
    "purge": ("confirm", "confirm_early"),
}


class WordsSerializer(serializers.Serializer[Any]):
    """Some words by their names, all optional; what was not sent is empty. Other names are refused."""

    def __init__(self, names: Iterable[str], given: Any = None) -> None:
        self._names = tuple(names)
        super().__init__(data=given)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {name: TextLine(default="", most=WHY_MAX) for name in self._names}

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
