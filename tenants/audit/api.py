"""REST of the audit trail, for admins: read, search; nothing changes it."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from portal.errors import FieldError, Refused
from portal.web.permissions import AdminsOnly
from tenants.audit import search
from tenants.models import AuditEntry

_WANTED = [
    OpenApiParameter(name, str)
    for name in ("q", "person", "verb", "kind", "result", "since", "until")
]


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    who = serializers.CharField(source="actor_name")

    class Meta:
        model = AuditEntry
        fields = (
            "id",
            "at",
            "who",
            "verb",
            "kind",
            "object_id",
            "object_name",
            "source_address",
            "result",
            "detail",
        )


class AuditListView(generics.ListAPIView[AuditEntry]):
    """Who changed what, the latest first; `since` and `until` are days in UTC."""

    permission_classes = (IsAuthenticated, AdminsOnly)
    serializer_class = AuditSerializer

    def get_queryset(self) -> QuerySet[AuditEntry]:
        wanted = search.read(self.request.query_params)
        if wanted.unreadable:
            text = "This is no day; write it as 2026-11-20."
            raise Refused([FieldError(name, "invalid", text) for name in wanted.unreadable])
        return search.find(wanted)

    @extend_schema(parameters=_WANTED)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)
