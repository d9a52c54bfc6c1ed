"""Signing in by an OpenID Connect provider, where `OIDC_ISSUER` is set; by allauth's machinery.

allauth keeps state and PKCE, and speaks to the provider. What a person is asked and told is ours,
so none of its pages is routed and none of its templates is ever rendered: everything ends in a
redirect with a message. Who somebody is here is decided by issuer and `sub` alone. A user name or
an e-mail address that somebody here has already never joins two accounts silently: the provider may
let people choose both.
"""

import hashlib
import logging
import secrets
from typing import Any, NoReturn

import jwt
import requests
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from portal.errors import Refused
from portal.web.request import PageRequest, next_page
from tenants.audit.record import SOMEBODY, UNKNOWN_PERSON, record
from tenants.models import AuditEntry
from tenants.people import identities, sessions
from tenants.people.id_token import checked

log = logging.getLogger(__name__)


def provider_id() -> str:
    """Names the issuer in the rows of identities: a `sub` of another issuer is somebody else."""
    return "oidc-" + hashlib.sha256(settings.OIDC_ISSUER.encode()).hexdigest()[:24]


class OIDCAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """What is said between us and the provider; stricter than allauth's own."""

    nonce = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        found: dict[str, Any] = super().openid_config
        if found.get("issuer") != settings.OIDC_ISSUER:
            raise OAuth2Error(f"the provider calls itself {found.get('issuer')!r}")
        return found

    def get_callback_url(self, request: Any, app: Any) -> str:
        url: str = request.build_absolute_uri(reverse("oidc-callback"))
        return url

    def get_access_token_data(
        self, request: Any, app: Any, client: Any, pkce_code_verifier: Any = None
    ) -> Any:
        if not pkce_code_verifier:
            raise OAuth2Error("this sign-in was begun without PKCE")
        return super().get_access_token_data(request, app, client, pkce_code_verifier)

    def complete_login(self, request: Any, app: Any, token: Any, **kwargs: Any) -> Any:
        statement = kwargs["response"].get("id_token")
        if not isinstance(statement, str):
            raise OAuth2Error("the provider sent no id_token")
        claims = checked(
            statement,
            keys=self._json(self.openid_config["jwks_uri"]),
            issuer=settings.OIDC_ISSUER,
            client_id=app.client_id,
            nonce=self.nonce,
        )
        more = {}
        if "userinfo_endpoint" in self.openid_config:
            more = self._fetch_user_info(token.token)
            if more.get("sub") != claims["sub"]:
                raise OAuth2Error("userinfo speaks of somebody else")
        # What is signed counts more than what is not.
        login = self.get_provider().sociallogin_from_response(request, {"id_token": claims})
        login.claims = {**more, **claims}
        return login

    def _json(self, url: str) -> Any:
        with AccountAdapter().get_requests_session() as session:
            answer = session.get(url)
            answer.raise_for_status()
            return answer.json()


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = OIDCAdapter

    def extract_extra_data(self, data: Any) -> dict[str, Any]:
        return {}  # nothing of it is used later, so nothing of it is kept


class AccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """allauth asks here; named in `settings.SOCIALACCOUNT_ADAPTER`."""

    def get_provider(self, request: Any, provider: str, client_id: Any = None) -> Provider:
        app = SocialApp(
            provider="openid_connect",
            provider_id=provider_id(),
            name=settings.OIDC_NAME,
            client_id=settings.OIDC_CLIENT_ID,
            secret=settings.OIDC_CLIENT_SECRET,
            settings={
                "server_url": settings.OIDC_ISSUER.rstrip("/"),
                "oauth_pkce_enabled": True,
                "scope": settings.OIDC_SCOPES,
            },
        )
        return Provider(request=request, app=app)

    def on_authentication_error(
        self,
        request: Any,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> NoReturn:
        log.warning("sign-in by %s failed: %s %s", settings.OIDC_NAME, error, exception or "")
        raise ImmediateHttpResponse(_failed(request, exception))

    def pre_social_login(self, request: Any, sociallogin: Any) -> NoReturn:
        """Everything is known; here our own way goes on, and allauth's ends."""
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            raise ImmediateHttpResponse(_connect(request, sociallogin))
        raise ImmediateHttpResponse(_arrive(request, sociallogin))


def _failed(request: PageRequest, exception: Exception | None) -> HttpResponse:
    if exception is None:
        text = _("Signing in with %(name)s was interrupted. Try again.")
    elif isinstance(exception, requests.RequestException):
        text = _("%(name)s does not respond. Try again later.")
    else:
        text = _("What %(name)s said about you could not be verified. Tell your admin.")
    messages.error(request, text % {"name": settings.OIDC_NAME})
    return redirect("account" if request.user.is_authenticated else "sign-in")


def _arrive(request: Any, sociallogin: Any) -> HttpResponse:
    """Signs in whoever it is, or says why not."""
    person = sociallogin.user if sociallogin.is_existing else None
    try:
        person = identities.find_or_create(
            person, claims=sociallogin.claims, provider=sociallogin.account.provider
        )
    except Refused as refusal:
        record(
            by=person or SOMEBODY,
            verb="sign-in",
            target=person or UNKNOWN_PERSON,
            result=AuditEntry.Result.REFUSED,
            detail={"with": settings.OIDC_NAME, "why": refusal.errors[0].code.replace("_", " ")},
        )
        messages.error(request, str(refusal))
        return redirect("sign-in")
    sessions.begin(request, person, verb="sign-in", how=settings.OIDC_NAME)
    return redirect(sociallogin.state.get("next") or "home")


def _connect(request: Any, sociallogin: Any) -> HttpResponse:
    """Joins the identity to the account of whoever has signed in here already."""
    name = settings.OIDC_NAME
    if not request.user.is_authenticated:
        messages.error(
            request, _("Sign in with your password first, then connect %(name)s.") % {"name": name}
        )
        return redirect("sign-in")
    if sociallogin.is_existing:
        text = _("This account of %(name)s is connected to somebody else already.")
        if sociallogin.user.pk == request.user.pk:
            text = _("%(name)s is connected already.")
        messages.error(request, text % {"name": name})
        return redirect("account")
    identities.connect(
        request.user, provider=sociallogin.account.provider, subject=sociallogin.account.uid
    )
    messages.success(request, _("You can now sign in with %(name)s.") % {"name": name})
    return redirect("account")


@never_cache
@require_POST
def begin(request: PageRequest) -> HttpResponseBase:
    """Leads to the provider, by a page: a form's redirect to another site is stopped by our
    Content-Security-Policy (form-action), which is worth keeping."""
    wants_connect = bool(request.POST.get("connect")) and request.user.is_authenticated
    if request.user.is_authenticated and not wants_connect:
        return redirect(next_page(request))
    nonce = secrets.token_urlsafe(32)
    try:
        answer = (
            AccountAdapter()
            .get_provider(request, "")
            .redirect(
                request,
                process=AuthProcess.CONNECT if wants_connect else AuthProcess.LOGIN,
                next_url=next_page(request),
                auth_params={"nonce": nonce},
                nonce=nonce,
            )
        )
    except (requests.RequestException, OAuth2Error, ValueError, KeyError) as error:
        log.warning("%s cannot be asked: %s", settings.OIDC_NAME, error)
        unreachable = requests.ConnectionError() if isinstance(error, ValueError) else error
        return _failed(request, unreachable)
    context = {"where": answer["Location"], "name": settings.OIDC_NAME}
    page = render(request, "people/to_provider.html", context)
    page["Refresh"] = f"0; url={answer['Location']}"
    return page


class _Callback(OAuth2CallbackView):  # type: ignore[misc]
    def _get_state(self, request: Any, provider: Any) -> Any:
        state, answer = super()._get_state(request, provider)
        if state is not None:
            self.adapter.nonce = state.get("nonce", "")
        return state, answer


@never_cache
@require_safe
def callback(request: PageRequest) -> HttpResponseBase:
    """Where the provider sends people back to."""
    try:
        answer: HttpResponseBase = _Callback.adapter_view(OIDCAdapter(request, provider_id()))(
            request
        )
    except (
        requests.RequestException,
        OAuth2Error,
        jwt.InvalidTokenError,
        ValueError,
        KeyError,
    ) as error:
        log.warning("sign-in by %s refused: %s", settings.OIDC_NAME, error)
        return _failed(request, error)
    return answer


def is_connected(user: Any) -> bool:
    """Whether the person can sign in by the provider."""
    return bool(SocialAccount.objects.filter(user=user, provider=provider_id()).exists())
