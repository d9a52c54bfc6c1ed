"""The list of namespaces: which are shown, in which order, on which page."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, F, FloatField, Q, QuerySet, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from portal.web.lists import Tab, revision_of, with_words
from portal.web.request import search_words
from tenants.models import QUOTA_COLUMNS, Tenant
from tenants.usage import UsageLine, held_lines

PAGE_SIZE = 50
BARS = ("gpu", "cpu", "memory")

State = Tenant.State
# key in the address -> title, states
_TABS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "": (_("All"), (State.PROVISIONING, State.ACTIVE, State.SUSPENDED, State.DELETING)),
    "problems": (_("Problems"), ()),
    "provisioning": (_("Being set up"), (State.PROVISIONING,)),
    "active": (_("Ready"), (State.ACTIVE,)),
    "suspended": (_("Suspended"), (State.SUSPENDED,)),
    "deleting": (_("Being deleted"), (State.DELETING,)),
    "gone": (_("Purged"), (State.GONE,)),
}


@dataclass(frozen=True)
class NamespaceRow:
    """One namespace in the list."""

    tenant: Tenant
    lines: list[UsageLine]

    @property
    def bars(self) -> list[UsageLine]:
        return [line for line in self.lines if line.kind in BARS]

    @property
    def over(self) -> list[UsageLine]:
        """Kinds of which more is held than allowed."""
        return [line for line in self.lines if line.over]


def _used(kind: str) -> Any:
    """What the cluster counts, as a number; null where nothing was seen yet."""
    return Cast(KT(f"observed_used__{kind}"), FloatField())


def _by_use(kind: str) -> tuple[Any, ...]:
    """The fullest first, by used of quota; nothing of nothing is no use."""
    column = QUOTA_COLUMNS[kind]
    share = _used(kind) / Cast(F(column), FloatField())
    use = Case(When(**{f"{column}__gt": 0}, then=share), default=Value(0.0))
    return (use.desc(nulls_last=True), F("namespace").asc())


# key in the address -> title, order
SORTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "name": (_("Namespace"), (F("namespace").asc(),)),
    "owner": (_("Owner"), (F("owner__username").asc(),)),
    "team": (_("Team"), (F("team__name").asc(nulls_last=True), F("namespace").asc())),
    "age": (_("Newest first"), (F("created_at").desc(),)),
    "gpu": (_("GPU in use"), _by_use("gpu")),
    "cpu": (_("CPU in use"), _by_use("cpu")),
    "memory": (_("Memory in use"), _by_use("memory")),
}


class NamespaceListing:
    """One page of all namespaces; for admins."""

    sorts: ClassVar = {key: title for key, (title, _order) in SORTS.items()}

    def __init__(self, user: Any, query: QueryDict) -> None:
        self.state = query.get("state", "") if query.get("state") in _TABS else ""
        self.sort = query.get("sort", "") if query.get("sort") in SORTS else "name"
        self.words = search_words(query)
        self._page_number = query.get("page", "1")
        self._visible: QuerySet[Tenant] = Tenant.objects.visible_to(user)

    @cached_property
    def _found(self) -> QuerySet[Tenant]:
        owner = ("owner__username", "owner__first_name", "owner__last_name")
        return self._visible.filter(with_words(self.words, "namespace", *owner, "team__name"))

    @property
    def _with_problems(self) -> QuerySet[Tenant]:
        """Those that tell of something, or hold more than they may."""
        found = self._found.exclude(state=State.GONE)
        is_over = Q()
        for kind in QUOTA_COLUMNS:
            found = found.alias(**{f"used_{kind}": _used(kind)})
            is_over |= Q(**{f"used_{kind}__gt": F(QUOTA_COLUMNS[kind])})
        return found.filter(~Q(reason_text="") | is_over)

    @cached_property
    def tabs(self) -> list[Tab]:
        """How many namespaces each tab would show. Two queries."""
        counted = self._found.order_by().values("state").annotate(n=Count("pk", distinct=True))
        by_state = {row["state"]: row["n"] for row in counted}
        counts = {
            key: sum(by_state.get(s, 0) for s in states) for key, (_t, states) in _TABS.items()
        }
        counts["problems"] = self._with_problems.count()
        return [
            Tab(key, title, counts[key], key == self.state)
            for key, (title, _states) in _TABS.items()
        ]

    @cached_property
    def page(self) -> Page[Tenant]:
        if self.state == "problems":
            chosen = self._with_problems
        else:
            chosen = self._found.filter(state__in=_TABS[self.state][1])
        tenants = chosen.select_related("owner", "team").order_by(*SORTS[self.sort][1], "pk")
        return Paginator(tenants, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def rows(self) -> list[NamespaceRow]:
        return [NamespaceRow(tenant, held_lines(tenant)) for tenant in self.page.object_list]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.words or self.state)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(str(row.tenant.pk), row.tenant.revision) for row in self.rows]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)
