"""The page of a person's uploads: what is kept, what it adds up to, and deleting it."""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from jobs import uploads
from jobs.limits import stored_of
from jobs.models import Bundle
from portal.errors import Refused
from portal.web.request import PageRequest, signed_in
from tenants.models import Tenant

PER_PAGE = 25


def _own(request: PageRequest) -> QuerySet[Bundle]:
    return Bundle.objects.filter(tenant__owner=request.user).order_by("-created_at", "pk")


@require_safe
@signed_in
def upload_list(request: PageRequest) -> HttpResponseBase:
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    context = {
        "page": Paginator(_own(request), PER_PAGE).get_page(request.GET.get("page")),
        "stored": stored_of(tenant.pk) if tenant else None,
        "keep_days": settings.BUNDLE_KEEP_DAYS,
        "unnamed_keep_days": uploads.unnamed_keep_days(),
    }
    return render(request, "jobs/uploads.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def upload_delete(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks first, on a page of its own."""
    bundle = get_object_or_404(_own(request), pk=pk)
    if request.method != "POST":
        count = uploads.unfinished_users(bundle)
        return render(request, "jobs/upload_delete.html", {"bundle": bundle, "in_use": count})
    try:
        uploads.delete(by=request.user, bundle=bundle)
    except Refused as refusal:
        context = {"bundle": bundle, "in_use": uploads.unfinished_users(bundle)}
        answer: HttpResponse = render(
            request, "jobs/upload_delete.html", context, status=refusal.status
        )
        return answer
    messages.success(request, _("“%(name)s” is deleted.") % {"name": bundle.file_name})
    return redirect("uploads")
