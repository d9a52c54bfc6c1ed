"""What people send about namespaces: pages and REST read it by the same serializers."""

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from portal.web.fields import Body, TextLine
from tenants.namespaces.actions import WHY_MAX
from tenants.quota.serializers import QuotaSerializer, confirm_field

# What each verb takes, all of it optional here: the action says which it needs.
VERB_FIELDS: dict[str, tuple[str, ...]] = {
    "suspend": ("why",),
    "resume": (),
    "delete": ("confirm", "data", "why"),
    "restore": (),
    "purge": ("confirm", "confirm_early"),
}


class WordsSerializer(Body):
    """Some words by their names, all optional; what was not sent is empty."""

    def __init__(self, names: Iterable[str], given: Any = None) -> None:
        self._names = tuple(names)
        super().__init__(data=given)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {name: TextLine(default="", most=WHY_MAX) for name in self._names}


class NewTenantSerializer(Body):
    """Whose, and what it may hold when that is not the default."""

    owner = TextLine(required=False, most=WHY_MAX)
    quota = QuotaSerializer(required=False)
    confirm = confirm_field()
