"""Pages of leads: the team, stopping something of a member with a reason, GPU-hours as a file."""

from collections.abc import Iterator
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.text import slugify
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRefresh

from jobs.kinds.registry import KINDS
from jobs.team.page import TeamPage
from jobs.team.workloads import find_workload
from jobs.usage.hours import HoursTable, hours_table
from jobs.workloads import actions
from portal.web.csv import csv_answer
from portal.web.request import PageRequest, is_unchanged, signed_in

# Cards that are read again by themselves.
PARTS = frozenset({"holdings", "work"})
WEEKS_IN_FILE = 52
MAX_REASON = 500
_HEADER = ("week", "from", "to", "user", "name", "gpu_hours", "cpu_core_hours")


@require_safe
@signed_in
def team(request: PageRequest) -> HttpResponseBase:
    return render(request, "team/page.html", {"page": TeamPage(request.user, request.GET)})


@require_safe
@signed_in
def team_fragment(request: PageRequest, part: str) -> HttpResponseBase:
    """One card, re-read after a change."""
    page = TeamPage(request.user, request.GET)
    if part not in PARTS or page.team is None:
        raise Http404(part)
    shown = page.workloads.fingerprint if part == "work" else page.quotas.fingerprint
    if is_unchanged(request, shown):
        return HttpResponse(status=204)
    return render(request, f"team/_{part}.html", {"page": page})


@require_safe
@signed_in
def team_hours(request: PageRequest) -> HttpResponseBase:
    """GPU-hours per person and week of the last year as CSV, the latest week first."""
    page = TeamPage(request.user, request.GET)
    if page.team is None:
        raise Http404("no team")
    table = hours_table(page.team, count=WEEKS_IN_FILE, now=now())
    name = slugify(page.team.name) or page.team.pk
    return csv_answer(f"gpu-hours-{name}-{now():%Y-%m-%d}.csv", _HEADER, _rows(table))


def _rows(table: HoursTable) -> Iterator[tuple[str | float, ...]]:
    """One for each person and week in which something ran."""
    for index in range(len(table.weeks) - 1, -1, -1):
        week = table.weeks[index]
        for row in table.people:
            hours = row.weeks[index]
            if not (hours.gpu or hours.cpu):
                continue
            yield (
                week.name,
                f"{week.begin:%Y-%m-%d}",
                f"{week.last_day:%Y-%m-%d}",
                row.person.username,
                row.person.shown_name,
                round(hours.gpu, 3),
                round(hours.cpu, 3),
            )


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def team_stop(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks why, and stops: whose work it is reads the answer."""
    workload = find_workload(request.user, pk)
    reason = request.POST.get("reason", "").strip()[:MAX_REASON]
    team_id = workload.tenant.team_id
    back = f"{reverse('lead-team')}?team={team_id}" if team_id else reverse("lead-team")
    is_own = workload.owner_id == request.user.pk
    error = ""
    if request.method == "POST":
        if reason or is_own:
            actions.stop(by=request.user, workload=workload, reason=reason)
            text = _("“%(name)s” is being stopped.")
            messages.success(request, text % {"name": workload.name})
            answer: HttpResponseBase = HttpResponseClientRefresh()
            return answer if request.htmx else redirect(back)
        error = _("Give a reason: %(name)s sees it.") % {"name": workload.owner.shown_name}
    context = {
        "workload": workload,
        "kind": KINDS[workload.kind],
        "is_own": is_own,
        "back": back,
        "error": error,
    }
    template = "team/_stop.html" if request.htmx else "team/stop.html"
    return render(request, template, context)
