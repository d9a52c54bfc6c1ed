"""Pages of people: signing in and out, the account with its API tokens, asking for a namespace."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import auth, messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.request import PageRequest, signed_in
from portal.rest import source_address
from tenants import actions
from tenants.forms import SignInForm, TokenForm
from tenants.models import ApiToken, User
from tenants.throttle import SignInThrottle


@dataclass(frozen=True)
class _Try:
    """A try to sign in on the page, as the throttle of REST reads its requests."""

    data: dict[str, str]
    META: dict[str, Any]
    headers: Any


def _may_try(request: PageRequest) -> bool:
    given = _Try({"username": request.POST.get("username", "")}, request.META, request.headers)
    return bool(SignInThrottle().allow_request(given, None))  # type: ignore[arg-type]


def _next_page(request: PageRequest) -> str:
    """Where to go after signing in: a page of this portal and of nobody else's."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: PageRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        return redirect(_next_page(request))
    if request.method != "POST":
        return _sign_in_page(request, SignInForm(request))
    form = SignInForm(request, request.POST)
    if not _may_try(request):
        form.add_error(None, _("Too many tries. Wait a minute, then try again."))
        return _sign_in_page(request, form, status=429)
    if not form.is_valid():
        return _sign_in_page(request, form)
    _open_session(request, form.get_user())
    return redirect(_next_page(request))


def _open_session(request: PageRequest, user: User) -> None:
    auth.login(request, user)
    actions.welcome(user=user, source_address=source_address(request))


def _sign_in_page(request: PageRequest, form: SignInForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "next": _next_page(request)}
    return render(request, "tenants/sign_in.html", context, status=status)


@require_POST
def sign_out(request: PageRequest) -> HttpResponseBase:
    auth.logout(request)
    messages.info(request, _("You are signed out."))
    return redirect("sign-in")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: PageRequest) -> HttpResponseBase:
    """The person's tokens; POST makes one, whose text is shown in this one answer only."""
    plain = ""
    form = TokenForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        _token, plain = actions.create_token(
            by=request.user,
            name=form.cleaned_data["name"],
            source_address=source_address(request),
        )
        form = TokenForm()
    tokens = ApiToken.objects.filter(user=request.user).order_by("-created_at")
    context = {"form": form, "tokens": tokens, "plain": plain}
    return render(request, "tenants/account.html", context)


@require_POST
@signed_in
def token_revoke(request: PageRequest, pk: UUID) -> HttpResponseBase:
    token = get_object_or_404(ApiToken, pk=pk, user=request.user)
    actions.revoke_token(by=request.user, token=token, source_address=source_address(request))
    messages.success(request, _("“%(name)s” no longer works.") % {"name": token.name})
    return redirect("account")


@require_POST
@signed_in
def tenant_make(request: PageRequest) -> HttpResponseBase:
    """An admin asks for a namespace; for others, who have one, this changes nothing."""
    actions.ensure_tenant(user=request.user, source_address=source_address(request))
    return redirect("home")
