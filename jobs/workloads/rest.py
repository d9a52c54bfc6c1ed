"""What REST of workloads and of uploads share: their addresses, the caller and the caller's namespace."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.response import Response
from rest_framework.routers import DynamicRoute, Route, SimpleRouter
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from portal.errors import Refused
from tenants.models import Tenant, User


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


def own_tenant(user: User) -> Tenant:
    """The tenant in which the user runs things.

    Raises:
        Refused: an admin without a namespace.
    """
    tenant = Tenant.objects.current_tenant_of(user)
    if tenant is None:
        text = "You have no namespace; ask for one on the home page."
        raise Refused(text, "no_tenant", 409)
    return tenant


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
