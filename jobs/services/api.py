"""REST of notebooks and TensorBoards: ask for one, look, start, stop, delete, open, events."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import generics, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api import StopSerializer, list_parameters, narrowed, own_tenant, signed_in
from jobs.models import Service, ServiceEvent, ServiceState
from jobs.services import actions, submission
from jobs.services.fit import fit
from jobs.services.opening import open_link
from jobs.services.serializers import (
    LinkSerializer,
    NotebookBodySerializer,
    ServiceEventSerializer,
    ServiceSerializer,
    TensorBoardBodySerializer,
    TensorBoardSerializer,
)
from jobs.services.submission import ServiceRequest
from portal.errors import FieldError, Refused
from portal.web.rest import source_address
from tenants.models import Tenant

# The checked body; raises Refused with every error.
Parse = Callable[[Mapping[str, Any], Tenant], ServiceRequest]


class _OfKind:
    """What the views of one kind have in common; `kind` says which."""

    kind: ClassVar[str]
    answer: ClassVar[type[ServiceSerializer]]
    request: Any

    def visible(self) -> QuerySet[Service]:
        services: QuerySet[Service] = Service.objects.visible_to(self.request.user)
        return services.filter(kind=self.kind).select_related("tenant", "owner")

    def find(self, pk: UUID) -> Service:
        """One that the caller may see; 404 for everything else, the other kind included."""
        return get_object_or_404(self.visible(), pk=pk)


class _ListView(_OfKind, generics.ListAPIView[Service]):
    def get_queryset(self) -> QuerySet[Service]:
        if getattr(self, "swagger_fake_view", False):
            return Service.objects.none()
        return narrowed(self.visible(), self.request.query_params, set(ServiceState))

    def get_serializer_class(self) -> type[ServiceSerializer]:
        return self.answer

    def ask_for(self, request: Request, parse: Parse) -> Response:
        """Queues what the body asks for, unless it could never start."""
        user = signed_in(request)
        tenant = own_tenant(user)
        if not isinstance(request.data, dict):
            raise Refused("The body must be a JSON object.", "invalid")
        wanted = parse(request.data, tenant)
        room = fit(wanted, tenant)
        if room.kind == "never":
            raise Refused([FieldError(room.field, "never_fits", room.text)])
        service = actions.create(
            by=user, tenant=tenant, request=wanted, source_address=source_address(request)
        )
        return Response(self.answer(service).data, status=status.HTTP_201_CREATED)


class _DetailView(_OfKind, APIView):
    def one(self, pk: UUID) -> Response:
        return Response(self.answer(self.find(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        service = self.find(pk)
        actions.delete(
            by=signed_in(request), service=service, source_address=source_address(request)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class _StartView(_OfKind, APIView):
    def start(self, request: Request, pk: UUID) -> Response:
        """Starts one that has ended again; harmless for one that has not."""
        service = self.find(pk)
        service = actions.start(
            by=signed_in(request), service=service, source_address=source_address(request)
        )
        return Response(self.answer(service).data)


class _StopView(_OfKind, APIView):
    def stop(self, request: Request, pk: UUID) -> Response:
        """Stops it; what is on the volumes stays. Harmless when it has ended."""
        service = self.find(pk)
        body = StopSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        service = actions.stop(
            by=signed_in(request),
            service=service,
            reason=body.validated_data["reason"],
            source_address=source_address(request),
        )
        return Response(self.answer(service).data)


class _OpenView(_OfKind, APIView):
    def open(self, request: Request, pk: UUID) -> Response:
        """A link through the gate, good once and for a minute."""
        link = open_link(
            by=signed_in(request),
            service=self.find(pk),
            source_address=source_address(request),
        )
        return Response(LinkSerializer(link).data)


class _EventsView(_OfKind, generics.ListAPIView[ServiceEvent]):
    """What happened to it, oldest first."""

    serializer_class = ServiceEventSerializer

    def get_queryset(self) -> QuerySet[ServiceEvent]:
        if getattr(self, "swagger_fake_view", False):
            return ServiceEvent.objects.none()
        return self.find(self.kwargs["pk"]).events.all()


_FILTERS = list_parameters(ServiceState)


# --- notebooks ---
class _Notebook(_OfKind):
    kind = Service.Kind.NOTEBOOK.value
    answer = ServiceSerializer


class NotebookListView(_Notebook, _ListView):
    """Notebooks that the caller may see, newest first; POST asks for one."""

    @extend_schema(parameters=_FILTERS, responses=ServiceSerializer(many=True))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=NotebookBodySerializer, responses={201: ServiceSerializer})
    def post(self, request: Request) -> Response:
        return self.ask_for(request, self.parse)

    def parse(self, body: Mapping[str, Any], tenant: Tenant) -> ServiceRequest:
        return submission.parse_notebook(body, tenant=tenant)


class NotebookDetailView(_Notebook, _DetailView):
    """One notebook."""

    @extend_schema(responses=ServiceSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        return self.one(pk)


class NotebookStartView(_Notebook, _StartView):
    """Starts a notebook again."""

    @extend_schema(request=None, responses=ServiceSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.start(request, pk)


class NotebookStopView(_Notebook, _StopView):
    """Stops a notebook."""

    @extend_schema(request=StopSerializer, responses=ServiceSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.stop(request, pk)


class NotebookOpenView(_Notebook, _OpenView):
    """Opens a notebook: the link is a secret of the caller's browser."""

    @extend_schema(request=None, responses=LinkSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.open(request, pk)


class NotebookEventsView(_Notebook, _EventsView):
    """What happened to a notebook, oldest first."""


# --- TensorBoards ---
class _TensorBoard(_OfKind):
    kind = Service.Kind.TENSORBOARD.value
    answer = TensorBoardSerializer


class TensorBoardListView(_TensorBoard, _ListView):
    """TensorBoards that the caller may see, newest first; POST asks for one."""

    @extend_schema(parameters=_FILTERS, responses=TensorBoardSerializer(many=True))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=TensorBoardBodySerializer, responses={201: TensorBoardSerializer})
    def post(self, request: Request) -> Response:
        return self.ask_for(request, self.parse)

    def parse(self, body: Mapping[str, Any], tenant: Tenant) -> ServiceRequest:
        return submission.parse_tensorboard(body, tenant=tenant, user=signed_in(self.request))


class TensorBoardDetailView(_TensorBoard, _DetailView):
    """One TensorBoard."""

    @extend_schema(responses=TensorBoardSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        return self.one(pk)


class TensorBoardStartView(_TensorBoard, _StartView):
    """Starts a TensorBoard again."""

    @extend_schema(request=None, responses=TensorBoardSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.start(request, pk)


class TensorBoardStopView(_TensorBoard, _StopView):
    """Stops a TensorBoard."""

    @extend_schema(request=StopSerializer, responses=TensorBoardSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.stop(request, pk)


class TensorBoardOpenView(_TensorBoard, _OpenView):
    """Opens a TensorBoard: the link is a secret of the caller's browser."""

    @extend_schema(request=None, responses=LinkSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        return self.open(request, pk)


class TensorBoardEventsView(_TensorBoard, _EventsView):
    """What happened to a TensorBoard, oldest first."""
