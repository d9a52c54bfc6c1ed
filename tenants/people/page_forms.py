"""The forms in which an admin writes about a person or a team."""

from collections.abc import Mapping
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

from portal.web.forms import SpecForm
from tenants.models import Team, User
from tenants.people.submission import InvitationBody, PersonBody, TeamBody
from tenants.policy import NEW_ACCOUNT, AccountRole
from tenants.quota.rules import BUDGET_COLUMNS, amount_text
from tenants.quota.serializers import amount_field

PERSON_FIELDS = ("first_name", "last_name", "email", "role", "team")


def invitation_form(posted: QueryDict | None) -> SpecForm:
    shown = {"role": NEW_ACCOUNT} if posted is None else None
    return SpecForm(InvitationBody().fields, posted, shown=shown)


def person_form(person: User, posted: QueryDict | None = None) -> SpecForm:
    """As the person is, or the texts that were sent; what is missing of these is empty."""
    fields = PersonBody().fields
    texts = {name: str(getattr(person, name) or "") for name in PERSON_FIELDS}
    shown = {**texts, "team": person.team.name if person.team else ""}
    chosen = {name: fields[name] for name in PERSON_FIELDS}
    return SpecForm(chosen, posted, shown=shown if posted is None else None)


def role_choices() -> list[tuple[str, str]]:
    return [(value, str(title)) for value, title in AccountRole.choices]


def team_choices() -> list[tuple[str, str]]:
    names = Team.objects.order_by("name").values_list("name", flat=True)
    return [("", _("No team")), *((name, name) for name in names)]


def team_form(team: Team | None = None, posted: QueryDict | None = None) -> SpecForm:
    """As the team is, or the texts that were sent; without both it is empty."""
    budget = {f"budget_{kind}": amount_field(kind) for kind in BUDGET_COLUMNS}
    shown = _texts(team) if team is not None and posted is None else None
    return SpecForm({"name": TeamBody().fields["name"], **budget}, posted, shown=shown)


def _texts(team: Team) -> dict[str, str]:
    budget = {
        f"budget_{kind}": "" if amount is None else amount_text(kind, amount)
        for kind, column in BUDGET_COLUMNS.items()
        for amount in [getattr(team, column)]
    }
    return {"name": team.name, **budget}


def team_body(form: SpecForm) -> Mapping[str, Any]:
    """The form as a body of REST; an empty budget is no limit."""
    budget = {kind: form.values[f"budget_{kind}"] or None for kind in BUDGET_COLUMNS}
    return {"name": form.values["name"], "budget": budget}
