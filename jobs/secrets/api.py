"""REST of secrets: written, listed, deleted; no answer has a value."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import UserSecret
from jobs.secrets import actions
from jobs.secrets.body import SecretBody
from portal.web.rest import read, text_asked
from tenants.authentication import caller
from tenants.models import Tenant


class UseSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    use = serializers.ChoiceField(["env", "files", "git"])


class SecretSerializer(serializers.ModelSerializer[UserSecret]):
    owner = serializers.CharField(source="tenant.owner.username")
    keys = serializers.ListField(child=serializers.CharField(), allow_null=True)
    state = serializers.ChoiceField(["pending", "ready", "lost"], allow_null=True)
    problem = serializers.CharField(allow_null=True, help_text="why it is still pending")
    updated = serializers.DateTimeField(source="changed_at", allow_null=True)
    used_by = serializers.SerializerMethodField(help_text="workloads that have not ended")

    class Meta:
        model = UserSecret
        fields = ("name", "owner", "kind", "keys", "state", "problem", "updated", "used_by")

    @extend_schema_field(UseSerializer(many=True, allow_null=True))
    def get_used_by(self, secret: UserSecret) -> Any:
        return UseSerializer(self._uses.get(secret.name, []), many=True).data

    def to_representation(self, instance: UserSecret) -> dict[str, Any]:
        """Of somebody else's the name alone; all else is null."""
        if instance.tenant.owner_id == self.context["request"].user.pk:
            return dict(super().to_representation(instance))
        shown = {"name": instance.name, "owner": instance.tenant.owner.username}
        return {**dict.fromkeys(self.Meta.fields), **shown}

    @cached_property
    def _uses(self) -> Mapping[str, list[actions.NamedUse]]:
        return actions.uses(Tenant.objects.current_tenant_of(self.context["request"].user))


class SecretListView(generics.ListAPIView[UserSecret]):
    """The caller's secrets; `owner` gives the names of those of somebody else whose workloads one may see."""

    serializer_class = SecretSerializer

    @extend_schema(parameters=[OpenApiParameter("owner", description="user name")])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[UserSecret]:
        user = caller(self.request)
        owner = text_asked(self.request.query_params, "owner")
        if owner in {"", user.username}:
            return _own(user)
        return actions.of_others(user).filter(tenant__owner__username=owner)


class SecretView(generics.RetrieveAPIView[UserSecret]):
    """One of the caller's secrets."""

    serializer_class = SecretSerializer
    lookup_field = "name"

    def get_queryset(self) -> QuerySet[UserSecret]:
        return _own(self.request.user)

    @extend_schema(request=SecretBody)
    def put(self, request: Request, name: str) -> Response:
        """Writes its values, in place of those that there were."""
        user = caller(request)
        tenant = Tenant.objects.own_of(user)
        checked = read(SecretBody(data=request.data))
        made = actions.put(by=user, tenant=tenant, name=name, **checked)
        return Response(self.get_serializer(made).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Deletes it; 409 while something that has not ended uses it."""
        actions.delete(by=caller(request), secret=self.get_object())
        return Response(status=204)


def _own(user: Any) -> QuerySet[UserSecret]:
    return actions.own(Tenant.objects.current_tenant_of(user)).select_related("tenant__owner")
