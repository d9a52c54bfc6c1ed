"""The admin's pages that hold nodes, with what that does before it is confirmed, and release them."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from jobs.fleet.hold_api import HoldBody
from jobs.scheduling import holds
from jobs.scheduling.models import NodeHold
from portal.errors import Refused
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only
from portal.web.rest import read, text_asked


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def hold(request: PageRequest) -> HttpResponseBase:
    """Asks from when on and why, then shows what that does, then does it."""
    is_posted = request.method == "POST"
    asked = request.POST if is_posted else request.GET
    where = {"node": text_asked(asked, "node"), "pool": text_asked(asked, "pool")}
    if not any(where.values()):  # it is chosen there
        return redirect("nodes")
    names = holds.nodes_of(**where)
    fields = {name: field for name, field in HoldBody().fields.items() if name in _TYPED}
    form = SpecForm(fields, request.POST if is_posted else None, shown=_held_now(names))
    context: dict[str, Any] = {"form": form, "where": where, "names": names}
    if not is_posted or "back" in request.POST:
        return render(request, "fleet/hold.html", context)
    body = form.attempt(lambda: read(HoldBody(data={**where, **form.values})))
    if body is None:
        return render(request, "fleet/hold.html", context, status=400)
    context["from_at"] = body["from_at"]
    if "confirm" in request.POST:
        known = set(_ids(request.POST.getlist("moves")))
        if _done(request, form, names, body, known):
            return redirect("nodes")
    context["effects"] = holds.effects_of(
        names, body["from_at"], body["reason"], of_pool=bool(body["pool"])
    )
    status = 409 if form.problems else 200
    return render(request, "fleet/hold_confirm.html", context, status=status)


_TYPED = ("from_at", "reason")
_NAMED = 10  # holds in one message


def _held_now(names: Sequence[str]) -> dict[str, str]:
    """What the form begins with: the hold of a node, as far as it is still to come."""
    row = NodeHold.objects.filter(pk=names[0]).first() if len(names) == 1 else None
    if row is None:
        return {}
    is_coming = row.from_at > timezone.now()
    return {"from_at": f"{row.from_at:%Y-%m-%dT%H:%M}" if is_coming else "", "reason": row.reason}


def _done(
    request: PageRequest,
    form: SpecForm,
    names: Collection[str],
    body: dict[str, Any],
    known: Collection[UUID],
) -> bool:
    """Whether they are held now; else the form says why not."""
    try:
        made = holds.hold(
            by=request.user,
            nodes=names,
            from_at=body["from_at"],
            reason=body["reason"],
            confirmed=known,
            of_pool=bool(body["pool"]),
        )
    except Refused as refusal:
        form.take(refusal.errors)
        return False
    text = ngettext("%(num)s node is held.", "%(num)s nodes are held.", len(made))
    messages.success(request, text % {"num": len(made)})
    return True


def _ids(texts: Collection[str]) -> Iterator[UUID]:
    for text in texts:
        try:
            yield UUID(text)
        except ValueError:
            continue


@require_POST
@admins_only
def release(request: PageRequest) -> HttpResponseBase:
    names, pool = request.POST.getlist("node"), text_asked(request.POST, "pool")
    if pool:
        names = holds.nodes_of(pool=pool)
    released, kept = holds.release(by=request.user, nodes=names, of_pool=bool(pool))
    count = len(released)
    text = ngettext("%(num)s node is released.", "%(num)s nodes are released.", count)
    if count:
        messages.success(request, text % {"num": count})
    else:
        messages.info(request, _("It was not held any more."))
    if kept:
        told = "; ".join(row.why for row in kept[:_NAMED])
        text = _("Of the pool are still held, apart from the others: %(what)s.")
        messages.info(request, text % {"what": told})
    return redirect("nodes")
