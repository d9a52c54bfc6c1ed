"""REST of the life of namespaces: make, suspend, resume, delete, restore, purge."""

from typing import ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.web.rest import read
from tenants.api import TenantSerializer, visible_tenants
from tenants.authentication import caller
from tenants.models import Tenant
from tenants.namespaces import actions
from tenants.namespaces.serializers import VERB_FIELDS, NewTenantSerializer, WordsSerializer


class NamespaceListView(generics.ListAPIView[Tenant]):
    """Namespaces that the caller may see; POST makes one for somebody who has none."""

    serializer_class = TenantSerializer

    def get_queryset(self) -> QuerySet[Tenant]:
        shown = visible_tenants(self.request.user)
        state = self.request.query_params.get("state", "")
        if state in Tenant.State.values:
            return shown.filter(state=state)
        # What was purged is history: shown when it is asked for.
        return shown.exclude(state=Tenant.State.GONE)

    @extend_schema(request=NewTenantSerializer, responses={201: TenantSerializer})
    def post(self, request: Request) -> Response:
        user = caller(request)
        given = read(NewTenantSerializer(data=request.data))
        owner = given.pop("owner", "") or user.username
        tenant = actions.create(by=user, owner=owner, **given)
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
    verbs: ClassVar = {"POST": "manage_tenants"}

    @extend_schema(request=_VERB_WORDS, responses=TenantSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        user = caller(request)
        tenant = get_object_or_404(visible_tenants(user), pk=pk)
        self.check_object_permissions(request, tenant)
        words = read(WordsSerializer(VERB_FIELDS[self.verb], request.data))
        act = actions.VERBS[self.verb]
        act(by=user, tenant=tenant, **words)
        return Response(TenantSerializer(visible_tenants(user).get(pk=pk)).data)
