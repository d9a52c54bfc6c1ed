"""The form of a new namespace."""

from collections.abc import Mapping
from typing import Any

from portal.catalog import get_catalog
from portal.web.forms import SpecForm
from tenants.models import Tenant, User
from tenants.namespaces.serializers import WordsSerializer
from tenants.quota.rules import amount_text
from tenants.quota.serializers import QuotaSerializer

_OWNERS = 200  # people that the field suggests


def new_namespace_form(posted: Mapping[str, Any] | None) -> SpecForm:
    """Whose namespace, and what it may hold: the default unless it is typed over."""
    default = get_catalog().default_quota
    quota = {
        "cpu": default.cpu_millicores,
        "memory": default.memory_bytes,
        "gpu": default.gpu_count,
        "pods": default.pods,
        "nodeports": default.nodeports,
    }
    fields = {**WordsSerializer(("owner",)).fields, **QuotaSerializer().fields}
    shown = {kind: amount_text(kind, amount) for kind, amount in quota.items()}
    return SpecForm(fields, posted, shown=shown, path="quota.")


def possible_owners() -> list[User]:
    """People without a namespace, to choose from."""
    homes = Tenant.objects.existing().values("owner_id")
    people = User.objects.filter(is_active=True).exclude(pk__in=homes)
    return list(people.order_by("username")[:_OWNERS])
