"""REST of the images that a training may name."""

from dataclasses import replace
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.kinds.training.images import known_images
from jobs.scheduling.guards import read_image_problems
from portal.catalog import get_catalog
from portal.web.rest import Pagination
from tenants.models import Tenant


class KnownImageSerializer(serializers.Serializer[Any]):
    image = serializers.CharField()
    title = serializers.CharField(help_text="what the admin calls it; empty: it is not offered")
    summary = serializers.CharField()
    is_offered = serializers.BooleanField()
    ran_at = serializers.DateTimeField(
        allow_null=True, help_text="when a training of your namespace last began with it"
    )
    problem = serializers.CharField(
        help_text="why it cannot start on this cluster, or since when it could not be pulled; else empty"
    )


class ImageListView(APIView):
    """Images that the admin offers for trainings, and others with which trainings of your namespace ran."""

    @extend_schema(responses=KnownImageSerializer(many=True))
    def get(self, request: Request) -> Response:
        tenant = Tenant.objects.current_tenant_of(request.user)
        paginator = Pagination()
        found = known_images(get_catalog().images, tenant)
        page = paginator.paginate_queryset(found, request) or []
        owner = str(tenant.pk) if tenant else ""
        problems = read_image_problems(timezone.now(), [one.image for one in page], owner)
        page = [replace(one, problem=problems.get(one.image, "")) for one in page]
        return paginator.get_paginated_response(KnownImageSerializer(page, many=True).data)
