"""Pages of signing in and out."""

from django.conf import settings
from django.contrib import auth, messages
from django.db import transaction
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.web.request import PageRequest, next_page
from portal.web.rest import source_address
from tenants.actions import record
from tenants.people import sessions, sign_in_limit
from tenants.people.forms import SignInForm


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: PageRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        return redirect(next_page(request))
    if request.method != "POST":
        return _sign_in_page(request, SignInForm(request))
    form = SignInForm(request, request.POST)
    tried = sign_in_limit.begin(
        name=request.POST.get("username", ""), address=source_address(request)
    )
    if not tried.is_allowed:
        form.add_error(None, too_many_text(tried.wait_minutes))
        answer = _sign_in_page(request, form, status=429)
        answer["Retry-After"] = str(tried.wait_s)
        return answer
    if not form.is_valid():
        sign_in_limit.failed(tried)
        return _sign_in_page(request, form)
    sign_in_limit.succeeded(tried)
    sessions.begin(request, form.get_user(), verb="sign-in", how="password")
    return redirect(next_page(request))


def too_many_text(minutes: int) -> str:
    """Why there is no further try now, and when there is one."""
    return ngettext(
        "Too many tries with a wrong name or password. Try again in %(minutes)s minute.",
        "Too many tries with a wrong name or password. Try again in %(minutes)s minutes.",
        minutes,
    ) % {"minutes": minutes}


def _sign_in_page(request: PageRequest, form: SignInForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "next": next_page(request),
        "provider": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
    }
    return render(request, "people/sign_in.html", context, status=status)


@require_POST
def sign_out(request: PageRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        with transaction.atomic():
            where = source_address(request)
            record(by=request.user, verb="sign-out", target=request.user, source_address=where)
            auth.logout(request)
    messages.info(request, _("You are signed out."))
    return redirect("sign-in")
