"""`Authorization: Token hp_...` for REST."""

from typing import Any

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication, exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from portal.log_lines import note
from tenants.actions import find_token, token_of
from tenants.models import ApiToken, User


class TokenAuthentication(authentication.BaseAuthentication):
    """Hashed, expiring tokens; a wrong one is an error even where a session would do."""

    def authenticate(self, request: Request | HttpRequest) -> tuple[User, ApiToken] | None:
        plain = token_of(request.META.get("HTTP_AUTHORIZATION", ""))
        if plain is None:
            return None
        token = find_token(plain)
        if token is None:
            raise exceptions.AuthenticationFailed(
                "this token is unknown, expired or revoked; make a new one on the account page"
            )
        if token.scope == ApiToken.Scope.READ and request.method not in SAFE_METHODS:
            text = "this token may only look (scope read); make one of the scope submit"
            raise exceptions.PermissionDenied(text, code="token_scope")
        note(user_id=str(token.user_id))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Token"


def caller(request: Request) -> User:
    """Who asks, where somebody must have signed in."""
    assert isinstance(request.user, User)
    return request.user


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names it."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        text = "Token hp_..., made on the account page or by POST auth/token/"
        return {"type": "apiKey", "in": "header", "name": "Authorization", "description": text}
