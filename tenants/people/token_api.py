"""REST of signing in: a name and a password for a token."""

from datetime import timedelta
from typing import Any

from django.contrib.auth import authenticate
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.errors import Refused
from portal.web.rest import source_address
from tenants.actions import create_token, find_token, on_sign_in, revoke_token, token_of
from tenants.models import TOKEN_LIFETIME, ApiToken, User
from tenants.people import sign_in_limit


class CredentialsSerializer(serializers.Serializer[Any]):
    """`scope` defaults to all that the person may do, `days` to the most there is."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=1000, trim_whitespace=False)
    name = serializers.CharField(max_length=80, default="token")
    scope = serializers.ChoiceField(choices=ApiToken.Scope.choices, default="")
    days = serializers.IntegerField(
        min_value=1, max_value=TOKEN_LIFETIME.days, default=TOKEN_LIFETIME.days
    )


class TokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField()
    scope = serializers.ChoiceField(choices=ApiToken.Scope.choices)
    expires_at = serializers.DateTimeField()


class TokenView(APIView):
    """Name and password for a token; DELETE revokes the token that is sent."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(request=CredentialsSerializer, responses={200: TokenSerializer})
    def post(self, request: Request) -> Response:
        credentials = CredentialsSerializer(data=request.data)
        credentials.is_valid(raise_exception=True)
        given = credentials.validated_data
        user = _authenticate(request, given["username"], given["password"])
        on_sign_in(user=user)
        token, plain = create_token(
            by=user,
            name=given["name"],
            scope=given["scope"],
            lifetime=timedelta(days=given["days"]),
        )
        answer = {"token": plain, "scope": token.scope, "expires_at": token.expires_at}
        return Response(answer)

    @extend_schema(responses={204: None})
    def delete(self, request: Request) -> Response:
        """Revokes the token that is sent, as the command line does when one signs out.

        Any scope may do that, so the token is looked up here and not by the usual way.
        """
        token = find_token(token_of(request.headers.get("Authorization", "")) or "")
        if token is None:
            raise Refused("Send the token that is to be revoked.", "not_authenticated", 401)
        revoke_token(by=token.user, token=token)
        return Response(status=204)


def _authenticate(request: Request, name: str, password: str) -> User:
    """The person with this name and password.

    Raises:
        Refused: there is none (401), or there were too many tries (429).
    """
    tried = sign_in_limit.begin(name=name, address=source_address(request))
    user = authenticate(request, username=name, password=password)
    if not isinstance(user, User):
        sign_in_limit.record_failure(tried)
        raise Refused("The name or the password is wrong.", "wrong_credentials", 401)
    sign_in_limit.take_back(tried)
    return user
