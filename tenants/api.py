"""REST of tenants, and who I am."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.web.cli_download import install_address
from portal.web.rest import read
from tenants.authentication import caller
from tenants.models import Tenant, TenantObject, User
from tenants.quota.rules import change_quota
from tenants.quota.serializers import QuotaChangeSerializer, QuotaField, quota_json


class TenantObjectSerializer(serializers.ModelSerializer[TenantObject]):
    class Meta:
        model = TenantObject
        fields = ("kind", "name", "state", "detail", "repaired_count", "since")


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    owner = serializers.CharField(source="owner.username")
    team = serializers.CharField(source="team.name", allow_null=True, default=None)
    quota = serializers.SerializerMethodField()
    used = serializers.SerializerMethodField()
    objects = TenantObjectSerializer(source="objects_seen", many=True)
    why = serializers.CharField(source="desired_why")
    weight = serializers.IntegerField()

    class Meta:
        model = Tenant
        fields = (
            "id",
            "namespace",
            "owner",
            "team",
            "state",
            "reason_text",
            "reason_next_step",
            "desired",
            "desired_at",
            "why",
            "purge_after",
            "purge_data",
            "gone_at",
            "quota",
            "used",
            "objects",
            "revision",
            "created_at",
            "weight",
            "quota_by_weight",
        )

    @extend_schema(responses=QuotaField)
    def get_quota(self, tenant: Tenant) -> dict[str, Any]:
        return quota_json(tenant.quota)

    @extend_schema(responses=QuotaField)
    def get_used(self, tenant: Tenant) -> dict[str, Any]:
        return quota_json(tenant.observed_used)


def visible_tenants(user: Any) -> QuerySet[Tenant]:
    """Tenants that the user may see, with all that a page or answer shows of them."""
    visible: QuerySet[Tenant] = (
        Tenant.objects.visible_to(user)
        .select_related("owner", "team")
        .prefetch_related("objects_seen")
        .order_by("namespace")
    )
    return visible


class TenantDetailView(generics.RetrieveAPIView[Tenant]):
    """One tenant with the state of each of its objects; a lead or an admin changes its quota, an admin its weight."""

    serializer_class = TenantSerializer
    verbs: ClassVar = {"PATCH": "change_quota"}

    def get_queryset(self) -> QuerySet[Tenant]:
        return visible_tenants(self.request.user)

    @extend_schema(request=QuotaChangeSerializer, responses=TenantSerializer)
    def patch(self, request: Request, pk: UUID) -> Response:
        tenant = self.get_object()
        given = read(QuotaChangeSerializer(data=request.data))
        changed = change_quota(by=caller(request), tenant=tenant, **given)
        return Response(TenantSerializer(changed if given["is_dry"] else self.get_object()).data)


class MeSerializer(serializers.ModelSerializer[User]):
    team = serializers.CharField(source="team.name", allow_null=True, default=None)
    tenant = TenantSerializer(allow_null=True, default=None)
    leads = serializers.ListField(child=serializers.CharField(), source="teams_led", read_only=True)
    command_line = serializers.SerializerMethodField(
        help_text="address of the command line of this version; empty where the portal offers none"
    )

    class Meta:
        model = User
        fields = (
            *("id", "username", "first_name", "last_name", "role", "team", "leads", "tenant"),
            "command_line",
        )

    def get_command_line(self, _user: User) -> str:
        return install_address(self.context["request"])


class MeView(APIView):
    """Who the caller is, with the own tenant."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        user = User.objects.select_related("team").get(username=request.user.get_username())
        return Response(MeSerializer(user, context={"request": request}).data)
