"""What an admin typed into a form about a person or a team, with its errors, for the macros."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.http import QueryDict
from django.utils.translation import gettext as _

from portal.errors import Refused
from tenants.models import Team, User
from tenants.policy import NEW_ACCOUNT, AccountRole
from tenants.quota.rules import BUDGET_COLUMNS, amount_text

T = TypeVar("T")


@dataclass
class PageForm:
    """`values` are texts as they stand in the fields; `problems` belong to no field shown."""

    values: dict[str, str]
    errors: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        return bool(self.errors or self.problems)

    def attempt(self, act: Callable[[], T]) -> T | None:
        """What `act` returns; None when it refuses, and then the errors are in the form."""
        try:
            return act()
        except Refused as refusal:
            for error in refusal.errors:
                name = error.field.replace("budget.", "budget_").split(".")[0]
                if name in self.values:
                    self.errors.setdefault(name, []).append(error.text)
                else:
                    self.problems.append(error.text)
            return None


PERSON_FIELDS = ("first_name", "last_name", "email", "role", "team")


def person_form(person: User | None = None) -> PageForm:
    """What is in the fields before anybody has typed."""
    if person is None:
        return PageForm({**dict.fromkeys(("username", *PERSON_FIELDS), ""), "role": NEW_ACCOUNT})
    values = {name: str(getattr(person, name) or "") for name in PERSON_FIELDS}
    return PageForm({**values, "team": person.team.name if person.team else ""})


def posted(names: tuple[str, ...], given: QueryDict) -> PageForm:
    """The texts that were sent; what is missing is empty."""
    return PageForm({name: given.get(name, "").strip() for name in names})


def role_choices() -> list[tuple[str, str]]:
    return [(value, str(title)) for value, title in AccountRole.choices]


def team_choices() -> list[tuple[str, str]]:
    names = Team.objects.order_by("name").values_list("name", flat=True)
    return [("", _("No team")), *((name, name) for name in names)]


TEAM_FIELDS = ("name", *(f"budget_{kind}" for kind in BUDGET_COLUMNS))


def team_form(team: Team | None = None) -> PageForm:
    if team is None:
        return PageForm(dict.fromkeys(TEAM_FIELDS, ""))
    budget = {
        f"budget_{kind}": "" if amount is None else amount_text(kind, amount)
        for kind, column in BUDGET_COLUMNS.items()
        for amount in [getattr(team, column)]
    }
    return PageForm({"name": team.name, **budget})


def team_body(form: PageForm) -> Mapping[str, Any]:
    """The form as a body of REST; an empty budget is no limit."""
    budget = {kind: form.values[f"budget_{kind}"] or None for kind in BUDGET_COLUMNS}
    return {"name": form.values["name"], "budget": budget}
