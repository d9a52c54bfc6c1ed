"""The page of the audit trail, and its CSV file."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponseBase
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from portal.web.request import PageRequest, admins_only, page_or_fragment
from portal.web.streaming import streamed
from tenants.audit import search
from tenants.audit.describe import KINDS, VERBS
from tenants.audit.export import audit_chunks
from tenants.models import AuditEntry

PAGE_SIZE = 50


@require_safe
@admins_only
def audit(request: PageRequest) -> HttpResponseBase:
    wanted = search.read(request.GET)
    page = Paginator(search.find(wanted), PAGE_SIZE).get_page(request.GET.get("page", "1"))
    context: dict[str, Any] = {
        "search": wanted,
        "page": page,
        "verbs": sorted((str(word), verb) for verb, word in VERBS.items()),
        "kinds": sorted((str(word), kind) for kind, word in KINDS.items()),
        "results": AuditEntry.Result.values,
    }
    return page_or_fragment(request, "audit/page.html", "audit/_list.html", context)


@require_safe
@admins_only
def audit_csv(request: PageRequest) -> HttpResponseBase:
    """What the page's search finds, all of it."""
    found = search.find(search.read(request.GET))
    return streamed(
        request,
        audit_chunks(found),
        content_type="text/csv; charset=utf-8",
        file_name=f"homeport-audit-{now():%Y-%m-%d}.csv",
    )
