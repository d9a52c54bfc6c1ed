"""Pages of tenants: asking for a namespace."""

from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from portal.web.request import PageRequest, signed_in
from tenants import actions


@require_POST
@signed_in
def tenant_make(request: PageRequest) -> HttpResponseBase:
    """An admin asks for a namespace; for others, who have one, this changes nothing."""
    actions.ensure_tenant(user=request.user)
    return redirect("home")
