"""The page of templates: which there are, renaming and deleting one."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.workloads import templates
from portal.web.request import PageRequest, done_or_told, signed_in

PER_PAGE = 50


@require_safe
@signed_in
def template_list(request: PageRequest) -> HttpResponseBase:
    page = Paginator(templates.visible_to(request.user), PER_PAGE).get_page(request.GET.get("page"))
    teams = {team.pk for team in templates.teams_of(request.user)}
    return render(request, "jobs/templates.html", {"page": page, "teams": teams})


@require_POST
@signed_in
def template_rename(request: PageRequest, pk: UUID) -> HttpResponseBase:
    template = get_object_or_404(templates.visible_to(request.user), pk=pk)
    name = request.POST.get("name", "")

    def rename() -> str:
        templates.save(by=request.user, replaced=template, name=name, team=template.team, body=None)
        return _("Saved.")

    return done_or_told(request, rename, "templates")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def template_delete(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks first, on a page of its own."""
    template = get_object_or_404(templates.visible_to(request.user), pk=pk)
    if request.method != "POST":
        return render(request, "jobs/template_delete.html", {"template": template})
    templates.delete(by=request.user, template=template)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": template.name})
    return redirect("templates")
