"""The form of a new namespace."""

from collections.abc import Mapping
from typing import Any

from portal.web.forms import SpecForm
from tenants.actions import default_columns
from tenants.models import Tenant, User
from tenants.namespaces.serializers import NewTenantSerializer
from tenants.quota.rules import COLUMNS, amount_text
from tenants.quota.serializers import QuotaSerializer

_OWNERS = 200  # people that the field suggests


def new_namespace_form(posted: Mapping[str, Any] | None) -> SpecForm:
    """Whose namespace, and what it may hold: the default unless it is typed over."""
    default = Tenant(**default_columns()).quota
    fields = {"owner": NewTenantSerializer().fields["owner"], **QuotaSerializer().fields}
    shown = {kind: amount_text(kind, amount) for kind, amount in default.items()}
    return SpecForm(fields, posted, shown=shown, path="quota.")


def new_namespace_body(form: SpecForm) -> dict[str, Any]:
    """The form as a body of REST."""
    typed = {kind: text for kind, text in form.typed.items() if kind in COLUMNS}
    return {"owner": form.values["owner"], **({"quota": typed} if typed else {})}


def possible_owners() -> list[User]:
    """People without a namespace, to choose from."""
    homes = Tenant.objects.existing().values("owner_id")
    people = User.objects.filter(is_active=True).exclude(pk__in=homes)
    return list(people.order_by("username")[:_OWNERS])
