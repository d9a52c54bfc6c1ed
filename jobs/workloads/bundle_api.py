"""REST of the caller's uploads."""

from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, parsers, status
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import uploads
from jobs.kinds.training.source import SHA256
from jobs.models import Bundle
from jobs.workloads import idempotency
from jobs.workloads.idempotency import Keep
from jobs.workloads.rest import RowsViewSet
from jobs.workloads.serializers import BundleSerializer, UploadedSerializer
from portal.errors import FieldError, Refused
from portal.web.uploads import find_upload
from tenants.models import Tenant


@extend_schema_view(
    list=extend_schema(
        description="The caller's uploads, newest first; POST takes code: an archive or one file, "
        "field `file`.",
        parameters=[OpenApiParameter("sha256", description="only uploads of exactly these bytes")],
    )
)
class BundleViewSet(mixins.ListModelMixin, RowsViewSet):
    """The caller's uploads."""

    parser_classes = (parsers.MultiPartParser,)
    serializer_class = BundleSerializer
    queryset = Bundle.objects.none()

    def get_queryset(self) -> QuerySet[Bundle]:
        # Only own ones: a training can use no other.
        found = Bundle.objects.filter(tenant__owner=self.user)
        if (sha256 := self.request.query_params.get("sha256")) is not None:
            if not SHA256.fullmatch(sha256):
                text = "A sha256 has 64 digits of 0-9 and a-f."
                raise Refused([FieldError("sha256", "invalid", text)])
            found = found.filter(sha256=sha256)
        return found.order_by("-created_at", "pk")

    @extend_schema(
        description="The caller's uploads, newest first; POST takes code: an archive or one file, "
        "field `file`.",
        parameters=[idempotency.PARAMETER],
        request={
            "multipart/form-data": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
            }
        },
        responses={201: UploadedSerializer},
    )
    def create(self, request: Request) -> Response:
        file = find_upload(request)
        if file is None:
            raise Refused([FieldError("file", "required", "Send the code as `file`.")])

        notes = uploads.check(by=self.user, file=file)

        def add(keep: Keep) -> Response:
            tenant, created = Tenant.objects.own_of(self.user), status.HTTP_201_CREATED
            bundle = uploads.add(
                by=self.user,
                tenant=tenant,
                file=file,
                then=lambda bundle: keep(created, bundle.pk),
            )
            return Response({**BundleSerializer(bundle).data, "notes": notes}, status=created)

        def show(pk: UUID) -> object:
            return {**BundleSerializer(self._find(pk)).data, "notes": notes}

        asked = [file.name, file.waiting.sha256]
        return idempotency.answered(request, self.user, asked, add, show)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: UUID) -> Response:
        """Removes it; 409 while a training that has not ended uses it."""
        uploads.delete(by=self.user, bundle=self._find(pk))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _find(self, pk: UUID) -> Bundle:
        bundle: Bundle = get_object_or_404(Bundle, tenant__owner=self.user, pk=pk)
        return bundle
