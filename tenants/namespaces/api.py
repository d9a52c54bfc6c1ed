"""REST of the life of namespaces: make, suspend, resume, delete, restore, purge."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.web.rest import source_address
from tenants.api import QuotaField, TenantListView, TenantSerializer, visible_tenants
from tenants.models import Tenant, User
from tenants.namespaces import actions
from tenants.namespaces.serializers import VERB_FIELDS, WordsSerializer
from tenants.quota.serializers import QuotaSerializer


def caller(request: Request) -> User:
    """Who asks; every view here requires somebody."""
    assert isinstance(request.user, User)
    return request.user


class NewTenantSerializer(serializers.Serializer[Any]):
    """Whose, and what it may hold when that is not the default."""

    owner = serializers.CharField(required=False)
    quota = QuotaField(required=False)


class NamespaceListView(TenantListView):
    """Namespaces that the caller may see; POST makes one for somebody who has none."""

    def get_queryset(self) -> QuerySet[Tenant]:
        shown = visible_tenants(self.request.user)
        state = self.request.query_params.get("state", "")
        if state in Tenant.State.values:
            return shown.filter(state=state)
        # What was purged is history: shown when it is asked for.
        return shown.exclude(state=Tenant.State.GONE)

    @extend_schema(request=NewTenantSerializer, responses={201: TenantSerializer})
    def post(self, request: Request) -> Response:
        user, body = caller(request), request.data
        given = dict(body) if isinstance(body, Mapping) else body
        asked = given.pop("quota", None) if isinstance(given, dict) else None
        words = WordsSerializer(("owner",), given).read()
        quota = QuotaSerializer(asked).read() if asked is not None else None
        tenant = actions.create(
            by=user,
            owner=words["owner"] or user.username,
            quota=quota,
            source_address=source_address(request),
        )
        fresh = visible_tenants(user).get(pk=tenant.pk)
        return Response(TenantSerializer(fresh).data, status=201)


# Words that a verb may take; a dictionary, because a serializer has a `data` of its own.
_VERB_WORDS = inline_serializer(
    "TenantVerb",
    {
        "why": serializers.CharField(required=False),
        "confirm": serializers.CharField(required=False),
        "confirm_early": serializers.CharField(required=False),
        "data": serializers.ChoiceField(choices=Tenant.Data.values, required=False),
    },
)


class NamespaceVerbView(APIView):
    """One verb of a namespace's life, for admins."""

    verb = ""

    @extend_schema(request=_VERB_WORDS, responses=TenantSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        user = caller(request)
        tenant = visible_tenants(user).filter(pk=pk).first()
        if tenant is None:
            raise Http404
        actions.check_may_manage(user, tenant)
        words = WordsSerializer(VERB_FIELDS[self.verb], request.data).read()
        act = actions.VERBS[self.verb]
        act(by=user, tenant=tenant, source_address=source_address(request), **words)
        return Response(TenantSerializer(visible_tenants(user).get(pk=pk)).data)
