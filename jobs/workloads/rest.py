"""What REST of workloads and of uploads share: their addresses, and the caller."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.response import Response
from rest_framework.routers import DynamicRoute, Route, SimpleRouter
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from tenants.models import User


class Router(SimpleRouter):
    """Addresses by `<uuid:pk>`, and names as pages have them: `api-jobs`, `api-job`, `api-job-stop`."""

    routes = [
        Route("{prefix}/", {"get": "list", "post": "create"}, "{basename}s", False, {}),
        DynamicRoute("{prefix}/{url_path}/", "{basename}-{url_name}", False, {}),
        Route(
            "{prefix}/{lookup}/",
            {"get": "retrieve", "put": "update", "delete": "destroy"},
            "{basename}",
            True,
            {},
        ),
        DynamicRoute("{prefix}/{lookup}/{url_path}/", "{basename}-{url_name}", True, {}),
    ]


class RowsViewSet(GenericViewSet[Any]):
    """Rows by their UUID, for a caller who has signed in."""

    lookup_value_converter = "uuid"

    @property
    def user(self) -> User:
        """The caller; all of this requires one."""
        assert isinstance(self.request.user, User)
        return self.request.user

    def page_of(self, rows: QuerySet[Any], answer: type[BaseSerializer[Any]]) -> Response:
        """A page of these rows, as a list of this sort answers."""
        return self.get_paginated_response(answer(self.paginate_queryset(rows), many=True).data)
