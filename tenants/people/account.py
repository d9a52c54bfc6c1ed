"""The own account: sessions, password, API tokens."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.web.cli_download import install_address
from portal.web.request import PageRequest, signed_in
from portal.web.rest import source_address
from tenants import actions
from tenants.models import ApiToken
from tenants.people import passwords, sessions, sign_in_limit
from tenants.people.devices import device_text
from tenants.people.forms import ChangePasswordForm, TokenForm


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def account(request: PageRequest) -> HttpResponseBase:
    """All of it; POST makes a token, whose text is shown in this one answer only."""
    if request.method != "POST":
        return _page(request)
    form = TokenForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, token_form=form, status=400)
    try:
        token, plain = actions.create_token(
            by=request.user,
            name=form.cleaned_data["name"],
            scope=form.cleaned_data["scope"],
            lifetime=form.lifetime,
        )
    except Refused as refusal:
        form.add_error("name", str(refusal))
        return _page(request, token_form=form, status=refusal.status)
    return _page(request, plain=plain, token=token)


def _page(request: PageRequest, status: int = 200, **changes: Any) -> HttpResponse:
    user = request.user
    is_connected = False
    if settings.OIDC_ISSUER:
        from tenants.people import oidc  # its models exist only where a provider is set

        is_connected = oidc.is_connected(user)
    here = request.session.session_key
    context = {
        "plain": "",
        "provider": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "is_connected": is_connected,
        "token": None,
        "token_form": TokenForm(user),
        "install_address": install_address(request),
        "portal_address": request.build_absolute_uri("/").rstrip("/"),
        "password_form": ChangePasswordForm(user) if user.has_usable_password() else None,
        "tokens": ApiToken.objects.filter(user=user).order_by("-created_at", "pk"),
        "sessions": [
            {"row": row, "device": device_text(row.user_agent), "is_here": row.pk == here}
            for row in sessions.existing(user)[:50]
        ],
        **changes,
    }
    return render(request, "people/account.html", context, status=status)


@require_POST
@signed_in
def token_revoke(request: PageRequest, pk: UUID) -> HttpResponseBase:
    token = get_object_or_404(ApiToken, pk=pk, user=request.user)
    actions.revoke_token(by=request.user, token=token)
    messages.success(request, _("“%(name)s” no longer works.") % {"name": token.name})
    return redirect("account")


@require_POST
@signed_in
def session_end(request: PageRequest, pk: UUID) -> HttpResponseBase:
    session = sessions.existing(request.user).filter(id=pk).first()
    if session is None:
        raise Http404(pk)
    sessions.end(by=request.user, session=session)
    if session.pk == request.session.session_key:
        request.session.flush()
        messages.info(request, _("You are signed out."))
        return redirect("sign-in")
    messages.success(request, _("That browser is signed out."))
    return redirect("account")


@require_POST
@signed_in
def sessions_end(request: PageRequest) -> HttpResponseBase:
    count = sessions.end_others(by=request.user, but=request.session.session_key or "")
    text = ngettext(
        "%(count)s other browser is signed out.", "%(count)s other browsers are signed out.", count
    )
    messages.success(request, text % {"count": count})
    return redirect("account")


@sensitive_post_parameters()
@never_cache
@require_POST
@signed_in
def password_change(request: PageRequest) -> HttpResponseBase:
    """The password until now is asked, and guessing it is slowed down like signing in."""
    user = request.user
    if not user.has_usable_password():
        raise Http404("this person signs in elsewhere")
    form = ChangePasswordForm(user, request.POST)
    try:
        tried = sign_in_limit.begin(name=user.username, address=source_address(request))
    except Refused as refusal:
        form.add_error("old_password", refusal.text)
        return _page(request, password_form=form, status=refusal.status)
    if not form.is_valid():
        if "old_password" in form.errors:
            sign_in_limit.record_failure(tried)
        else:
            sign_in_limit.take_back(tried)
        return _page(request, password_form=form, status=400)
    sign_in_limit.take_back(tried)
    revoke_tokens = form.cleaned_data["revoke_tokens"]
    passwords.change(
        request, password=form.cleaned_data["new_password1"], revoke_tokens=revoke_tokens
    )
    words = (
        _("Your password is changed. Other browsers are signed out, and no API token works.")
        if revoke_tokens
        else _("Your password is changed. Other browsers are signed out.")
    )
    messages.success(request, words)
    return redirect("account")
