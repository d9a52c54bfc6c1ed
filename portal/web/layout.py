"""The frame around every page: its navigation, its banner and its warnings."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.timezone import now
from django.utils.translation import gettext, gettext_lazy

from portal import insecure, room
from portal.web import reconciler
from portal.web.lists import revision_of
from portal.web.reconciler import Banner, LeaseRow


def everybody(user: Any) -> bool:
    """Shown to whoever has signed in."""
    return bool(user.is_authenticated)


def leads(user: Any) -> bool:
    """Shown to people who lead a team; asks the database once per request."""
    return bool(user.is_authenticated and user.may("lead"))


def admins(user: Any) -> bool:
    """Shown to admins, in a menu of its own beside the others."""
    return bool(user.is_authenticated and user.may("administer"))


@dataclass(frozen=True, eq=False)
class NavItem:
    """A page that the navigation leads to, and who is shown it; the page itself refuses others."""

    route: str
    title: Any  # a lazy text: translated when it is printed
    icon: str
    path_prefix: str | tuple[str, ...]  # the item is marked as current below it
    show: Callable[[Any], bool] = everybody

    def has(self, path: str) -> bool:
        return path == "/" if self.path_prefix == "/" else path.startswith(self.path_prefix)


# In the order of the page.
NAV = [
    NavItem("home", gettext_lazy("Overview"), "house", "/"),
    NavItem("lead-team", gettext_lazy("Team"), "team", "/team/", leads),
    NavItem("nodes", gettext_lazy("Nodes"), "server", "/nodes/"),
    NavItem("queue", gettext_lazy("Queue"), "queue", "/queue/"),
    NavItem("namespaces", gettext_lazy("Namespaces"), "anchor", "/admin/namespaces/", show=admins),
    NavItem("people", gettext_lazy("People"), "user", "/admin/people/", admins),
    NavItem("teams", gettext_lazy("Teams"), "team", "/admin/teams/", admins),
    NavItem("scheduling", gettext_lazy("Scheduling"), "queue", "/admin/scheduling/", admins),
    NavItem("audit", gettext_lazy("Audit trail"), "scroll", "/admin/audit/", admins),
    NavItem("health", gettext_lazy("Health"), "pulse", "/admin/health/", show=admins),
]


def add_lists(items: Iterable[NavItem]) -> None:
    """Lists of an app, which it brings when it is ready; they come after the first page."""
    NAV[1:1] = items


_CSRF_INPUT = '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'


class Warned(NamedTuple):
    """What is wrong with the installation; `is_on_health`: the health page says more of it."""

    text: str
    is_on_health: bool


class Layout:
    """The frame around a page. Nothing is read from the database before a template asks for it."""

    def __init__(self, request: HttpRequest) -> None:
        self.user: Any = getattr(request, "user", None) or AnonymousUser()
        self.path = request.path

    @cached_property
    def nav(self) -> tuple[NavItem, ...]:
        """The pages that this person works with."""
        return tuple(item for item in NAV if item.show is not admins and item.show(self.user))

    @cached_property
    def admin_nav(self) -> tuple[NavItem, ...]:
        """The pages of the Admin menu; empty for everybody else."""
        return tuple(item for item in NAV if item.show is admins and item.show(self.user))

    @cached_property
    def here(self) -> NavItem | None:
        """The one of these that leads to this page, or to what it is part of."""
        return next((item for item in (*self.nav, *self.admin_nav) if item.has(self.path)), None)

    @cached_property
    def lease(self) -> LeaseRow | None:
        return reconciler.find_lease()

    @property
    def banner(self) -> Banner | None:
        return reconciler.find_banner(self.lease, now())

    @property
    def banner_revision(self) -> str:
        """Changes when anything that the banner tells changes."""
        return revision_of(self.banner, self.warnings)

    @property
    def is_isolated(self) -> bool:
        """Whether people's namespaces are apart on the network, as far as anybody knows."""
        return reconciler.is_isolated(self.lease)

    @property
    def warnings(self) -> list[Warned]:
        """That the disk is full, and what admins are to mend, on every page of theirs."""
        if not self.user.is_authenticated:
            return []
        found = []
        if room.is_short():
            found.append(
                Warned(
                    gettext(
                        "The disk is nearly full: uploads and new trainings are refused for now. "
                        "Delete trainings and uploads that are no longer needed."
                    ),
                    is_on_health=True,
                )
            )
        if not self.user.may("administer"):
            return found
        found += [
            Warned(f"{fault.text} {fault.hint}", is_on_health=False)
            for fault in insecure.accepted()
        ]
        if not self.is_isolated:
            found.append(
                Warned(
                    gettext(
                        "Namespaces are not isolated: pods of one namespace can reach those of any other. "
                        "The health page says what to do."
                    ),
                    is_on_health=True,
                )
            )
        return found


def layout(request: HttpRequest) -> Mapping[str, Any]:
    """Context processor: what `layout.html` needs, and the token of forms.

    Django would mask the token anew for each form of the page; once for each answer is enough.
    """
    token: Any = SimpleLazyObject(lambda: get_token(request))
    return {
        "layout": Layout(request),
        "csrf_token": token,
        "csrf_input": SimpleLazyObject(lambda: format_html(_CSRF_INPUT, token)),
    }
