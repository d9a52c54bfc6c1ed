"""The verbs that pages and REST share: which words each takes, and what carries it out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from tenants import policy
from tenants.models import Tenant, User
from tenants.namespaces import actions
from tenants.namespaces.serializers import WordsSerializer


@dataclass(frozen=True)
class Verb:
    """One verb.

    Attributes:
        fields: words that it takes, all optional here; the action says which it needs.
        done: what the page says afterwards, with %(name)s.
    """

    fields: tuple[str, ...]
    act: Callable[..., Tenant]
    done: Any


VERBS: dict[str, Verb] = {
    "suspend": Verb(("why",), actions.suspend, _("%(name)s is suspended: what runs is ended.")),
    "resume": Verb((), actions.resume, _("%(name)s is open again.")),
    "delete": Verb(
        ("confirm", "data", "why"),
        actions.delete,
        _("%(name)s is deleted. It can be restored for seven days."),
    ),
    "restore": Verb((), actions.restore, _("%(name)s is restored, with its data.")),
    "purge": Verb(
        ("confirm", "confirm_early"), actions.purge, _("%(name)s is being removed for ever.")
    ),
}


def verbs_for(tenant: Tenant) -> tuple[str, ...]:
    """What can be done with a namespace as it is wanted now, the likeliest first."""
    by_desire: dict[str, tuple[str, ...]] = {
        Tenant.Desired.ACTIVE: ("suspend", "delete"),
        Tenant.Desired.SUSPENDED: ("resume", "delete"),
        Tenant.Desired.DELETED: ("restore", "purge"),
    }
    return by_desire.get(tenant.desired, ()) if tenant.state != Tenant.State.GONE else ()


def carry_out(
    name: str, *, by: User, tenant: Tenant, given: Any, source_address: str = ""
) -> Tenant:
    """Does what a verb says with the words of a request.

    Raises:
        KeyError: there is no such verb.
        Refused, PermissionDenied: see there; nothing was changed.
    """
    verb = VERBS[name]
    policy.require(by, "manage_tenants", tenant)
    words = WordsSerializer(verb.fields, given).read()
    return verb.act(by=by, tenant=tenant, source_address=source_address, **words)
