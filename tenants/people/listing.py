"""The list of people: which are shown, in which tab, on which page."""

from functools import cached_property
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from portal.web.lists import Tab, revision_of, with_words
from portal.web.request import search_words
from tenants import policy
from tenants.models import Team, User
from tenants.people.actions import NOT_JOINED

PAGE_SIZE = 50
# key in the address -> title, who is shown
_TABS: dict[str, tuple[Any, Q]] = {
    "": (_("All"), Q()),
    "active": (_("Active"), Q(is_active=True) & ~NOT_JOINED),
    "invited": (_("Invited"), Q(is_active=True) & NOT_JOINED),
    "disabled": (_("Disabled"), Q(is_active=False)),
}
NO_TEAM = "-"


def with_teams(people: QuerySet[User]) -> QuerySet[User]:
    """Reads along in which team each is, and which they lead."""
    return policy.with_teams_led(people.select_related("team"))


def visible_people(viewer: User) -> QuerySet[User]:
    """Oneself; everybody for an admin; with all that is shown of them."""
    return with_teams(User.objects.filter(policy.people(viewer, "see"))).order_by("username")


class PeopleListing:
    """One page of people, by user name."""

    def __init__(self, query: QueryDict) -> None:
        self.state = query.get("state", "") if query.get("state") in _TABS else ""
        self.role = query.get("role", "") if query.get("role") in policy.AccountRole.values else ""
        self.team = query.get("team", "").replace("\0", "")[:63]
        self.words = search_words(query)
        self._page_number = query.get("page", "1")

    @cached_property
    def teams(self) -> list[str]:
        return list(Team.objects.order_by("name").values_list("name", flat=True))

    @cached_property
    def _found(self) -> QuerySet[User]:
        columns = ("username", "first_name", "last_name", "email")
        found = User.objects.filter(with_words(self.words, *columns))
        if self.role:
            found = found.filter(role=self.role)
        if self.team == NO_TEAM:
            found = found.filter(team=None)
        elif self.team:
            found = found.filter(team__name=self.team)
        return found

    @cached_property
    def tabs(self) -> list[Tab]:
        """How many people each tab would show. One query."""
        counts = self._found.aggregate(
            **{f"of_{key}": Count("pk", filter=q) for key, (_title, q) in _TABS.items()}
        )
        return [
            Tab(key, title, counts[f"of_{key}"], key == self.state)
            for key, (title, _q) in _TABS.items()
        ]

    @cached_property
    def page(self) -> Page[User]:
        people = with_teams(self._found.filter(_TABS[self.state][1])).order_by("username")
        return Paginator(people, PAGE_SIZE).get_page(self._page_number)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.words or self.state or self.role or self.team)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes but when somebody was last seen."""
        shown = [
            (str(one.pk), one.shown_name, one.state, one.role, str(one.team), one.teams_led)
            for one in self.page.object_list
        ]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)
