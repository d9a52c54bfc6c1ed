"""Forms of namespaces: the words of a verb, and a new namespace."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from portal.catalog import get_catalog
from portal.errors import Refused
from tenants.models import Tenant, User
from tenants.namespaces.serializers import VERB_FIELDS
from tenants.quota.forms import TITLES
from tenants.quota.rules import COLUMNS, amount_text
from tenants.quota.serializers import QuotaSerializer

_OWNERS = 200  # people that the field suggests


class _Form:
    """What is typed and what is wrong with it; `macros.html` reads `values` and `errors`.

    Attributes:
        problems: what is wrong with the request as a whole.
    """

    values: dict[str, str]

    def __init__(self) -> None:
        self.errors: dict[str, list[str]] = {}
        self.problems: list[str] = []

    def take_errors(self, refusal: Refused) -> None:
        """Puts each error beside its field."""
        for error in refusal.errors:
            if error.field in self.values:
                self.errors.setdefault(error.field, []).append(error.text)
            else:
                self.problems.append(error.text)


class VerbForm(_Form):
    """The question before a verb."""

    def __init__(self, verb: str, tenant: Tenant, posted: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.verb = verb
        self.tenant = tenant
        self.values = {name: str((posted or {}).get(name, "")) for name in VERB_FIELDS[verb]}


class NewNamespaceForm(_Form):
    """Whose namespace, and what it may hold: the default unless it is typed over."""

    titles = TITLES

    def __init__(self, posted: Mapping[str, Any] | None) -> None:
        super().__init__()
        given = posted or {}
        default = get_catalog().default_quota
        quota = {
            "cpu": default.cpu_millicores,
            "memory": default.memory_bytes,
            "gpu": default.gpu_count,
            "pods": default.pods,
            "nodeports": default.nodeports,
        }
        self.default = {kind: amount_text(kind, amount) for kind, amount in quota.items()}
        self.values = {
            "owner": str(given.get("owner", "")).strip(),
            **{kind: str(given.get(kind, text)).strip() for kind, text in self.default.items()},
        }

    def read(self) -> dict[str, int] | None:
        """The amounts that differ from the default, or None with the errors in the form."""
        if not self.values["owner"]:
            self.errors["owner"] = [_("Whose namespace is it to be?")]
        typed = {kind: self.values[kind] for kind in COLUMNS if self._is_typed(kind)}
        amounts: dict[str, int] = {}
        try:
            amounts = QuotaSerializer(typed).read(prefix="") if typed else {}
        except Refused as refusal:
            self.take_errors(refusal)
        return None if self.errors or self.problems else amounts

    def _is_typed(self, kind: str) -> bool:
        return self.values[kind] != self.default[kind]

    def owners(self) -> list[User]:
        """People without a namespace, to choose from."""
        homes = Tenant.objects.existing().values("owner_id")
        people = User.objects.filter(is_active=True).exclude(pk__in=homes)
        return list(people.order_by("username")[:_OWNERS])
