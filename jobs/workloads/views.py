"""Pages of workloads of all kinds: the lists.

Every view is given its kind, looks up what its person may see, and answers.
"""

from functools import cache

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import select_template
from django.views.decorators.http import require_safe

from jobs.kinds.base import WorkloadKind
from jobs.kinds.training.examples import EXAMPLES
from jobs.workloads.listing import WorkloadListing
from portal.web.request import PageRequest, is_unchanged, signed_in, wants_fragment


@cache
def template_of(kind: WorkloadKind, name: str) -> str:
    """The kind's own template of this name, or the one of all kinds."""
    folders = (kind.pages.slug, "workloads")
    found: str = select_template([f"{folder}/{name}.html" for folder in folders]).template.name
    return found


def _render(request: PageRequest, kind: WorkloadKind, name: str, **context: object) -> HttpResponse:
    """
    Args:
        name: of a template; those that it includes it finds by `part(NAME)`.
    """

    def part(name: str) -> str:
        return template_of(kind, f"_{name}")

    return render(request, template_of(kind, name), {"kind": kind, "part": part, **context})


@require_safe
@signed_in
def show_list(request: PageRequest, kind: WorkloadKind) -> HttpResponseBase:
    listing = WorkloadListing(request.user, kind, request.GET)
    if is_unchanged(request, listing.fingerprint):
        return HttpResponse(status=204)
    name = "_list" if wants_fragment(request) else "list"
    return _render(request, kind, name, listing=listing, examples=EXAMPLES)
