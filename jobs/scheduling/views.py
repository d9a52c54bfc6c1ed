"""The admin's page of the queue's switches: each with what it does at the moment, in a sentence."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods

from jobs.models import Workload
from jobs.places import NodeReservation
from jobs.scheduling import actions
from jobs.scheduling.guards import (
    read_guarded_images,
    read_suspicious_nodes,
    read_wanted_images,
)
from jobs.scheduling.models import HOUR_S, NodeHold, Scheduling
from portal import quantity
from portal.catalog import borrowing, known_pools, max_duration_s
from portal.web.fields import Body, Duration, FixedChoice
from portal.web.format import duration_text
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only
from portal.web.rest import read
from tenants.models import Team, Tenant

ON, OFF = "on", "off"


class SchedulingBody(Body):
    """The switches as they are typed."""

    fair_share = FixedChoice((ON, OFF), label=gettext_lazy("Fair share"))
    aging_s = Duration(least=HOUR_S, most=90 * 24 * HOUR_S, label=gettext_lazy("Goes first after"))


def _form(chosen: Scheduling, posted: Mapping[str, Any] | None = None) -> SpecForm:
    texts = {
        "fair_share": ON if chosen.fair_share else OFF,
        "aging_s": quantity.duration_text(chosen.aging_s),
    }
    return SpecForm(SchedulingBody().fields, posted, shown=None if posted else texts)


def _longest_runs() -> str:
    """What `max_duration` of the catalog does."""
    told = []
    if most_s := max_duration_s("training"):
        text = _("A training runs for %(most)s at most, and has that deadline if it asks for none.")
        told.append(text % {"most": duration_text(most_s)})
    if most_s := max_duration_s("notebook"):
        text = _("A notebook is stopped after %(most)s, and can be started again.")
        told.append(text % {"most": duration_text(most_s)})
    if most_s := max_duration_s("tensorboard"):
        text = _("A TensorBoard is stopped after %(most)s, and can be started again.")
        told.append(text % {"most": duration_text(most_s)})
    return " ".join(told) or _(
        "Nothing has to end. When something starts that waits for what has no deadline, nobody knows."
    )


def _effects(chosen: Scheduling) -> dict[str, str]:
    """What each switch does now."""
    queued = Workload.objects.queued()
    aged = queued.filter(queued_at__lte=timezone.now() - timedelta(seconds=chosen.aging_s)).count()
    held = NodeHold.objects.count()
    kept = NodeReservation.objects.filter(workload__in=queued).count()
    by_weight = Tenant.objects.filter(quota_by_weight=True).existing().count()
    teams = Team.objects.exclude(weight=1).count()
    names = ", ".join(pool.shown_name for pool in known_pools())
    if chosen.fair_share:
        fair = _("Whoever has used the least lately, divided by their weight, goes first.")
    else:
        fair = _("What was submitted first goes first, whatever its team has used lately.")
    weights = ngettext(
        "%(num)s namespace has its quota by weight.",
        "%(num)s namespaces have their quota by weight.",
        by_weight,
    )
    others = ngettext(
        "%(num)s team has a weight other than 1.",
        "%(num)s teams have a weight other than 1.",
        teams,
    )
    waits = ngettext(
        "%(num)s queued workload has waited that long.",
        "%(num)s queued workloads have waited that long.",
        aged,
    )
    nodes = ngettext(
        "%(num)s workload has nodes kept for it.",
        "%(num)s workloads have nodes kept for them.",
        kept,
    )
    no = _("No")
    return {
        "borrowing": {
            "none": _("Work of low priority stays within its namespace's quota."),
            "team": _("Work of low priority may use what its team's budget still has."),
            "cluster": _("Work of low priority may use whatever is free in the cluster."),
        }[borrowing()],
        "fair_share": fair,
        "aging_s": f"{waits % {'num': aged or no}} {nodes % {'num': kept or no}}",
        "weights": f"{weights % {'num': by_weight or no}} {others % {'num': teams or no}}",
        "max_duration": _longest_runs(),
        "holds": ngettext(
            "%(num)s node is held for maintenance.", "%(num)s nodes are held for maintenance.", held
        )
        % {"num": held or no},
        "pools": names or _("All nodes are one pool."),
        **_guards(),
    }


def _guards() -> dict[str, str]:
    """What the guards do now."""
    now = timezone.now()
    images = sorted({one.image for one in read_guarded_images(now, read_wanted_images(now))})
    avoided = [one for one in read_suspicious_nodes(now) if one.is_avoided]
    tried = ngettext(
        "%(names)s could not be pulled three times within ten minutes: one workload tries it every ten "
        "minutes, and the others wait.",
        "%(names)s could not be pulled three times within ten minutes: one workload tries each of them "
        "every ten minutes, and the others wait.",
        len(images),
    ) % {"names": ", ".join(images)}
    until = ", ".join(
        _("%(node)s until %(until)s") % {"node": one.name, "until": f"{one.until:%H:%M} UTC"}
        for one in avoided
    )
    if not images:
        tried = _("No image failed to be pulled three times within ten minutes.")
    kept_off = _("Nothing new starts on %(nodes)s.") % {"nodes": until}
    if not avoided:
        kept_off = _("No node is avoided because trainings of two people died there three times.")
    return {"images": tried, "suspicious": kept_off}


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def scheduling(request: PageRequest) -> HttpResponseBase:
    chosen, form = Scheduling.load(), None
    if request.method == "POST":
        form = _form(chosen, request.POST)
        asked = form.attempt(lambda: read(SchedulingBody(data=form.values)))
        if asked is not None:
            asked = {**asked, "fair_share": asked["fair_share"] == ON}
            actions.change(by=request.user, changes=asked)
            messages.success(request, _("Saved. The next look at the queue follows it."))
            return redirect("scheduling")
    limits = {"queued": settings.MAX_QUEUED, "submits": settings.SUBMITS_PER_MINUTE}
    context = {"form": form or _form(chosen), "effects": _effects(chosen), "limits": limits}
    return render(request, "fleet/scheduling.html", context, status=400 if form else 200)
