"""What pages of a kind are called, what they say, and what they show of one in a few words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise

from jobs.models import Workload
from jobs.rules.states import WorkloadState


def _nothing(workload: Workload) -> str:
    return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class KindPages:
    """Pages of a kind.

    Attributes:
        slug: one of them in addresses, and the folder of the templates that are its own: "training".
        title: of the list, and in the navigation.
        new: what leads to the form.
        none_named: said of a search without a result; `%(words)s` are those searched for.
        none_in_state: said of an empty tab.
        tabs: of the list, in their order: key in the address -> title, states. "" is open at first.
        by_namespace: whether the list can be narrowed to one namespace.
        per_page: rows of the list on one page.
        summary: what one is, in a few words; lists have no more of it than its columns.
        summary_title: of the column that has it.
        summary_columns: the columns of a row that the summary reads.
        subtitle: the same for the page of one; "" where its page says it elsewhere.
        stays_at_hand: whether those that ended lately are on the first page, to be started again.
        stop_all: asked before all of one's own are stopped, of `%(num)s`; None: no page asks that.
        stop_all_text: what becomes of them.
        asks_reason: whether the owner is asked why, too, before one is stopped.
        delete_going: what deleting one does that has not ended.
        delete_ended: the same for one that has.
        loses_work: whether what is not saved is lost when one that runs is stopped.
    """

    slug: str
    title: Promise
    new: Promise
    none_named: Promise
    none_in_state: Promise
    tabs: Mapping[str, tuple[Promise, frozenset[WorkloadState]]]
    per_page: int
    summary: Callable[[Any], str]
    summary_title: Promise
    summary_columns: tuple[str, ...]
    by_namespace: bool = False
    subtitle: Callable[[Workload], str] = _nothing
    stays_at_hand: bool = False
    stop_all: Promise | None = None
    stop_all_text: Promise | str = ""
    asks_reason: bool = False
    delete_going: Promise
    delete_ended: Promise
    loses_work: bool = False
