"""REST of jobs: submit, preview, look, stop, delete, logs, events, manifests, artifacts, uploads."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, parsers, serializers, status
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import actions, checks, private, submission, uploads
from jobs.archive.logs import NoSuchAttemptError, Which, which_of
from jobs.fit import fit
from jobs.logs import downloads
from jobs.models import Artifact, Bundle, Job, JobEvent, Service
from jobs.preview import preview_documents
from jobs.rules.states import JobState
from jobs.serializers import (
    ArtifactSerializer,
    BundleSerializer,
    EventSerializer,
    JobSerializer,
    PreviewSerializer,
    SubmitSerializer,
)
from portal.cluster.manifests import to_yaml
from portal.errors import FieldError, Refused
from portal.web.rest import source_address
from portal.web.uploads import find_upload
from tenants.models import Tenant, User

MAX_TAIL = 10_000


def signed_in(request: Request) -> User:
    """The caller; views here all require one."""
    assert isinstance(request.user, User)
    return request.user


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


def find_job(request: Request, pk: UUID) -> Job:
    job: Job = get_object_or_404(
        Job.objects.visible_to(request.user).select_related("tenant", "owner"), pk=pk
    )
    return job


def _shown(request: Request, job: Job) -> Any:
    return JobSerializer(job, context={"request": request}).data


def parse_or_refuse(request: Request, tenant: Tenant) -> submission.Submission:
    if not isinstance(request.data, dict):
        raise Refused("The body must be a JSON object.", "invalid")
    return submission.parse(request.data, tenant=tenant, user=signed_in(request))


def id_range(start: str) -> tuple[UUID, UUID]:
    """The lowest and the highest id that begins like this.

    Raises:
        Refused: not the beginning of an id, or too short to mean one.
    """
    digits = start.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{4,32}", digits):
        raise Refused([FieldError("id", "invalid", "Give 4 or more of the id's digits.")])
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


R = TypeVar("R", Job, Service)


def narrowed(rows: QuerySet[R], asked: Mapping[str, str], states: Collection[str]) -> QuerySet[R]:
    """The rows of a list that `state`, `owner`, `id` and `name` of its query ask for.

    Raises:
        Refused: there is no such state, or the id's beginning is none.
    """
    if state := asked.get("state", ""):
        if state not in states:
            raise Refused([FieldError("state", "invalid_choice", "No such state.")])
        rows = rows.filter(state=state)
    if owner := _text(asked, "owner"):
        rows = rows.filter(owner__username=owner[:150])
    if start := asked.get("id", ""):
        rows = rows.filter(pk__range=id_range(start))
    name = _text(asked, "name")
    return rows.filter(name__icontains=name[:80]) if name else rows


def _text(asked: Mapping[str, str], name: str) -> str:
    """No name has a NUL, and some databases do not take one."""
    return asked.get(name, "").replace("\0", "\ufffd")


def list_parameters(states: type[StrEnum]) -> list[OpenApiParameter]:
    """What `narrowed` reads, for the OpenAPI document."""
    return [
        OpenApiParameter("state", enum=[state.value for state in states]),
        OpenApiParameter("name", description="part of the name"),
        OpenApiParameter("owner", description="user name of the owner"),
        OpenApiParameter("id", description="how the id begins, at least 4 of its digits"),
    ]


class JobListView(generics.ListCreateAPIView[Job]):
    """Jobs that the caller may see, newest first; POST submits one."""

    serializer_class = JobSerializer

    def get_queryset(self) -> QuerySet[Job]:
        jobs: QuerySet[Job] = (
            Job.objects.visible_to(self.request.user)
            .for_lists()
            .select_related("tenant", "owner")
            .prefetch_related("replica_rows")
        )
        return narrowed(jobs, self.request.query_params, set(JobState))

    @extend_schema(parameters=list_parameters(JobState))
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(request=SubmitSerializer, responses={201: JobSerializer})
    def post(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        tenant = own_tenant(signed_in(request))
        wanted = parse_or_refuse(request, tenant)
        room = fit(wanted, tenant)
        if room.kind == "never":
            raise Refused([FieldError(room.field, "never_fits", room.text)])
        job = actions.submit(
            by=signed_in(request),
            tenant=tenant,
            submission=wanted,
            source_address=source_address(request),
        )
        return Response(_shown(request, job), status=status.HTTP_201_CREATED)


class JobPreviewView(APIView):
    """What a submit would do: whether it fits, and the manifests."""

    @extend_schema(request=SubmitSerializer, responses={200: PreviewSerializer})
    def post(self, request: Request) -> Response:
        tenant = own_tenant(signed_in(request))
        wanted = parse_or_refuse(request, tenant)
        room = fit(wanted, tenant)
        documents = preview_documents(wanted, tenant)
        return Response(
            {
                "fit": {"kind": room.kind, "text": room.text},
                "manifests": to_yaml(documents),
            }
        )


class JobDetailView(APIView):
    """One job."""

    @extend_schema(responses=JobSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(_shown(request, find_job(request, pk)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        job = find_job(request, pk)
        actions.delete(by=signed_in(request), job=job, source_address=source_address(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class StopSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class JobStopView(APIView):
    """Stops a job with its grace; harmless when it has ended."""

    @extend_schema(request=StopSerializer, responses={200: JobSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        job = find_job(request, pk)
        body = StopSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        job = actions.stop(
            by=signed_in(request),
            job=job,
            source_address=source_address(request),
            reason=body.validated_data["reason"],
        )
        return Response(_shown(request, job))


class JobManifestsView(APIView):
    """The manifests that were rendered at admission, as YAML; secret values are never in them."""

    @extend_schema(responses={(200, "application/yaml"): OpenApiTypes.STR})
    def get(self, request: Request, pk: UUID) -> HttpResponse:
        job = find_job(request, pk)
        text = to_yaml(private.shown_plan(job, signed_in(request)))
        return HttpResponse(text, content_type="application/yaml; charset=utf-8")


class JobEventsView(generics.ListAPIView[JobEvent]):
    """What happened to a job, oldest first."""

    serializer_class = EventSerializer

    def get_queryset(self) -> QuerySet[JobEvent]:
        if getattr(self, "swagger_fake_view", False):
            return JobEvent.objects.none()
        return find_job(self.request, self.kwargs["pk"]).events.all()


class PlainTextRenderer(BaseRenderer):
    """Declared so that `Accept: text/plain` is not refused; the views answer by themselves."""

    media_type = "text/plain"
    format = "txt"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """Only errors come here; they are one sentence each."""
        errors = data.get("errors", []) if isinstance(data, dict) else []
        return "\n".join(str(error["text"]) for error in errors).encode()


class AnyAccept(BaseContentNegotiation):
    """Logs are text whatever the client says it accepts; errors stay JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: Any = None
    ) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


def parse_replica(job: Job, name: str | None) -> tuple[str, int] | None:
    """`worker-0` as (role, index), None for all.

    Raises:
        Refused: the job has no such replica.
    """
    if not name:
        return None
    replica = downloads.replica_of(job, name)
    if replica is None:
        text = f"This job has no replica {name[:40]!r}."
        raise Refused([FieldError("replica", "not_found", text)], status=404)
    return replica


def parse_attempt(job: Job, text: str | None) -> Which:
    """Whose log is asked for.

    Raises:
        Refused: the job has not had that attempt.
    """
    try:
        return which_of(job, text or "")
    except NoSuchAttemptError as error:
        raise Refused([FieldError("attempt", "not_found", str(error))], status=404) from error


class JobLogsView(APIView):
    """The log so far as text: of one replica, or of all with prefixes."""

    content_negotiation_class = AnyAccept

    @extend_schema(
        parameters=[
            OpenApiParameter("replica", description="for example worker-0; absent: all"),
            OpenApiParameter("attempt", description="1 for the first, latest (default), or all"),
            OpenApiParameter("tail", OpenApiTypes.INT, description="lines, at most 10,000"),
            OpenApiParameter("download", OpenApiTypes.INT, description="1: all, as a file"),
        ],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, pk: UUID) -> StreamingHttpResponse:
        job = find_job(request, pk)
        replica = parse_replica(job, request.query_params.get("replica"))
        which = parse_attempt(job, request.query_params.get("attempt"))
        tail = checks.as_whole(request.query_params.get("tail", "1000"))
        if tail is None or not 1 <= tail <= MAX_TAIL:
            raise Refused([FieldError("tail", "out_of_range", f"This must be 1 to {MAX_TAIL}.")])
        is_download = request.query_params.get("download") == "1"
        lines = None if is_download else tail
        return downloads.log_answer(request._request, job, replica, lines, which)


class JobArtifactsView(generics.ListAPIView[Artifact]):
    """Files that a job left."""

    serializer_class = ArtifactSerializer

    def get_queryset(self) -> QuerySet[Artifact]:
        if getattr(self, "swagger_fake_view", False):
            return Artifact.objects.none()
        job = find_job(self.request, self.kwargs["pk"])
        return job.artifacts.filter(uploaded_at__isnull=False)


class JobArtifactView(APIView):
    """One file that a job left."""

    content_negotiation_class = AnyAccept

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: UUID, artifact_id: UUID) -> StreamingHttpResponse:
        job = find_job(request, pk)
        artifact = get_object_or_404(job.artifacts, pk=artifact_id, uploaded_at__isnull=False)
        return downloads.artifact_answer(request._request, artifact)


class BundleDetailView(APIView):
    """One of the caller's uploads."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Removes it; 409 while a training that has not ended uses it."""
        own = Bundle.objects.filter(tenant__owner=signed_in(request))
        bundle = get_object_or_404(own, pk=pk)
        uploads.delete(by=signed_in(request), bundle=bundle, source_address=source_address(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class BundleListView(generics.ListAPIView[Bundle]):
    """The caller's uploads, newest first; POST takes code: an archive or one file, field `file`."""

    parser_classes = (parsers.MultiPartParser,)
    serializer_class = BundleSerializer

    def get_queryset(self) -> QuerySet[Bundle]:
        # Only own ones: a training can use no other.
        found = Bundle.objects.filter(tenant__owner=signed_in(self.request))
        if (sha256 := self.request.query_params.get("sha256")) is not None:
            if not submission.SHA256.fullmatch(sha256):
                text = "A sha256 has 64 digits of 0-9 and a-f."
                raise Refused([FieldError("sha256", "invalid", text)])
            found = found.filter(sha256=sha256)
        return found.order_by("-created_at", "pk")

    @extend_schema(
        parameters=[OpenApiParameter("sha256", description="only uploads of exactly these bytes")]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        request={
            "multipart/form-data": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
            }
        },
        responses={201: BundleSerializer},
    )
    def post(self, request: Request) -> Response:
        tenant = own_tenant(signed_in(request))
        file = find_upload(request)
        if file is None:
            raise Refused([FieldError("file", "required", "Send the code as `file`.")])
        bundle: Bundle = actions.add_bundle(
            by=signed_in(request),
            tenant=tenant,
            file=file,
            source_address=source_address(request),
        )
        return Response(BundleSerializer(bundle).data, status=status.HTTP_201_CREATED)
