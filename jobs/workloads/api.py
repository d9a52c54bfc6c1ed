"""REST of workloads: one set of addresses for each kind."""

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from jobs import limits, pruning
from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import WorkloadSpec
from jobs.kinds.training import private
from jobs.kinds.training.answers import OneJobSerializer
from jobs.kinds.training.asked import read_asked
from jobs.kinds.training.export import FORMS, exported
from jobs.kinds.training.suspended import suspended_seconds
from jobs.logs import downloads
from jobs.models import Replica, Workload
from jobs.rules.states import FINAL_STATES
from jobs.rules.topologies import TOPOLOGIES
from jobs.workloads import actions, conditional, deadline, dry_run, idempotency, usage_api
from jobs.workloads.bundle_api import BundleViewSet
from jobs.workloads.fit import fit
from jobs.workloads.idempotency import Keep
from jobs.workloads.listing import named_tenant
from jobs.workloads.log_api import LOG_PARAMETERS, log_request
from jobs.workloads.preview import preview_documents
from jobs.workloads.queue_place import ShownPlace, place_json, place_of
from jobs.workloads.rest import Router, RowsViewSet
from jobs.workloads.serializers import (
    ArtifactSerializer,
    AskedSerializer,
    DeadlineSerializer,
    DocumentSerializer,
    DryRunSerializer,
    LinkSerializer,
    OrderSerializer,
    PreviewSerializer,
    PrioritySerializer,
    PrunedSerializer,
    PruneSerializer,
    StopSerializer,
)
from jobs.workloads.template_api import TemplateViewSet
from portal.cluster.manifests import to_yaml
from portal.errors import FieldError, Refused
from portal.web.rest import read, text_asked
from tenants.models import Tenant, User

# What a list of trainings reads of a row; most other columns are times, which are dear to read.
_READ = (
    *("kind", "tenant", "owner", "name", "image", "replicas", "spec", "revision"),
    *("state", "reason_code", "reason_text", "reason_next_step"),
    *("attempt", "queued_at", "started_at", "finished_at", "source_commit"),
)
Asked = tuple[Tenant, WorkloadSpec]


def _id_range(start: str) -> tuple[UUID, UUID]:
    """The lowest and the highest id that begins like this.

    Raises:
        Refused: not the beginning of an id, or too short to mean one.
    """
    digits = start.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{4,32}", digits):
        raise Refused([FieldError("id", "invalid", "Give 4 or more of the id's digits.")])
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


class AnyAccept(BaseContentNegotiation):
    """Logs are text whatever the client says it accepts; errors stay JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: Any = None
    ) -> tuple[Any, str]:
        return renderers[0], renderers[0].media_type


class WorkloadViewSet(mixins.ListModelMixin, RowsViewSet):
    """What all kinds have in common; `kind` says which."""

    queryset = Workload.objects.none()
    kind: ClassVar[WorkloadKind]

    def visible(self) -> QuerySet[Workload]:
        rows: QuerySet[Workload] = Workload.objects.filter(kind=self.kind.key)
        return rows.visible_to(self.user)  # type: ignore[attr-defined,no-any-return]

    def for_list(self) -> QuerySet[Workload]:
        """With what a list shows."""
        return self.for_one()

    def for_one(self) -> QuerySet[Workload]:
        return self.visible().select_related("tenant", "owner")

    def get_queryset(self) -> QuerySet[Workload]:
        """The rows of a list that `state`, `owner`, `id` and `name` of its query ask for.

        Raises:
            Refused: there is no such state, or the id's beginning is none.
        """
        if getattr(self, "swagger_fake_view", False):
            return Workload.objects.none()
        rows, asked = self.for_list(), self.request.query_params
        if state := asked.get("state", ""):
            if state not in self.kind.states:
                raise Refused([FieldError("state", "invalid_choice", "No such state.")])
            rows = rows.filter(state=state)
        if owner := text_asked(asked, "owner"):
            rows = rows.filter(owner__username=owner[:150])
        if start := asked.get("id", ""):
            rows = rows.filter(pk__range=_id_range(start))
        name = text_asked(asked, "name")
        return rows.filter(name__icontains=name[:80]) if name else rows

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        rest = self.kind.rest
        return (rest.list_answer if self.action == "list" else None) or rest.answer

    def find(self, pk: UUID | None = None) -> Workload:
        """The one of this id, else that the address names, if the caller may see it; 404 for all else."""
        workload: Workload = get_object_or_404(self.for_one(), pk=pk or self.kwargs["pk"])
        return workload

    def read(self, tenant: Tenant) -> WorkloadSpec:
        """The checked body; raises Refused with every error."""
        if not isinstance(self.request.data, dict):
            raise Refused("The body must be a JSON object.", "invalid")
        return self.kind.read(self.request.data, tenant=tenant, user=self.user)

    def answered(self, workload: Workload, status_code: int = status.HTTP_200_OK) -> Response:
        return Response(self.shown(workload), status=status_code)

    def shown(self, workload: Workload) -> Any:
        """One as it is answered, with its place in the queue."""
        return self._placed(workload, place_of(self.user, workload))

    def _placed(self, workload: Workload, place: ShownPlace | None) -> Any:
        told = {"position": place.position if place else None, **place_json(place)}
        context = {**self.get_serializer_context(), "place": told}
        return self.get_serializer(workload, context=context).data

    def create(self, request: Request) -> Response:
        def read() -> Asked:
            tenant = Tenant.objects.own_of(self.user)
            return tenant, self.read(tenant)

        if dry_run.is_asked(request.query_params):
            limits.check_dry_runs(self.user)  # before what is too much costs more
            tenant, spec = read()
            told = dry_run.ask(by=self.user, tenant=tenant, kind=self.kind, spec=spec)
            return Response(DryRunSerializer(told).data)
        return self.submitted(request, request.data, read)

    def submitted(self, request: Request, body: object, read: Callable[[], Asked]) -> Response:
        """What is read of the body is queued, once for each `Idempotency-Key`."""

        def submit(keep: Keep) -> Response:
            tenant, spec = read()
            with transaction.atomic():
                made = actions.submit(by=self.user, tenant=tenant, kind=self.kind, spec=spec)
                answer = self.answered(made, status.HTTP_201_CREATED)
                keep(answer.status_code, made.pk)
            return answer

        def show(pk: UUID) -> object:
            return self.shown(self.find(pk))

        return idempotency.answered(request, self.user, body, submit, show)

    def retrieve(self, request: Request, pk: UUID) -> Response:
        workload = self.find()
        place = place_of(self.user, workload)
        is_known = conditional.is_known(request, workload, place)
        data = None if is_known else self._placed(workload, place)
        status_code = status.HTTP_304_NOT_MODIFIED if is_known else status.HTTP_200_OK
        return Response(data, status_code, headers=conditional.headers_of(workload, place))

    def destroy(self, request: Request, pk: UUID) -> Response:
        revision = conditional.revision_asked(request)
        actions.delete(by=self.user, workload=self.find(), revision=revision)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: UUID) -> Response:
        workload = self.find()
        body = StopSerializer(data=request.data or {})
        body.is_valid(raise_exception=True)
        reason = body.validated_data["reason"]
        return self.answered(actions.stop(by=self.user, workload=workload, reason=reason))

    @action(detail=True)
    def events(self, request: Request, pk: UUID) -> Response:
        return self.page_of(self.find().events.all(), self.kind.rest.event_answer)

    @usage_api.DESCRIBED
    @action(detail=True)
    def usage(self, request: Request, pk: UUID) -> Response:
        return usage_api.series_of(self, self.find())


class GatedViewSet(WorkloadViewSet):
    """What is opened in a browser, and started again."""

    def for_one(self) -> QuerySet[Workload]:
        return super().for_one().prefetch_related("replica_rows").defer("plan", "notes")

    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: UUID) -> Response:
        """Harmless for one that has not ended."""
        return self.answered(actions.start(by=self.user, workload=self.find()))

    @action(detail=True, methods=["post"])
    def open(self, request: Request, pk: UUID) -> Response:
        """A link through the gate, good once and for a minute."""
        return Response(LinkSerializer(actions.open_link(by=self.user, workload=self.find())).data)


class ArchivedViewSet(WorkloadViewSet):
    """What leaves logs and files; with a preview of its manifests."""

    def for_list(self) -> QuerySet[Workload]:
        rows = self.visible().only(*_READ)
        topologies = self.request.query_params.get("topology", "")
        if not topologies:
            return rows
        wanted = topologies.split(",")
        if not TOPOLOGIES.keys() >= set(wanted):
            raise Refused([FieldError("topology", "invalid_choice", "No such topology.")])
        return rows.filter(spec__topology__in=wanted)

    def list(self, request: Request) -> Response:
        rows = self._page()
        known = {**self.get_serializer_context(), "suspended_s": suspended_seconds(rows)}
        shown = self.get_serializer(rows, many=True, context=known)
        return self.get_paginated_response(shown.data)

    def _page(self) -> Sequence[Workload]:
        """The rows of a page with what else it shows of them: three queries.

        There are few people and namespaces, so each is made once; Django's prefetch asks for them by
        conditions that it is slow to write.
        """
        rows = self.paginate_queryset(self.get_queryset()) or []
        tenants = Tenant.objects.only("namespace", "owner").in_bulk({row.tenant_id for row in rows})
        owners = User.objects.only("username").in_bulk({row.owner_id for row in rows})
        replicas: dict[UUID, list[Replica]] = {row.pk: [] for row in rows}
        for replica in Replica.objects.filter(workload__in=replicas):
            replicas[replica.workload_id].append(replica)
        for row in rows:
            row.tenant, row.owner = tenants[row.tenant_id], owners[row.owner_id]
            row.shown_replicas = replicas[row.pk]
        return rows

    @extend_schema(
        description="Stops a job with its grace until it is resumed, or holds it in the queue.",
        request=None,
    )
    @action(detail=True, methods=["post"])
    def suspend(self, request: Request, pk: UUID) -> Response:
        return self.answered(actions.suspend(by=self.user, workload=self.find()))

    @extend_schema(description="Queues a suspended job anew, as its next attempt.", request=None)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: UUID) -> Response:
        return self.answered(actions.resume(by=self.user, workload=self.find()))

    @extend_schema(
        description="Changes the priority of a job that has not ended; only leads and admins give `high`.",
        request=PrioritySerializer,
    )
    @action(detail=True, methods=["post"])
    def priority(self, request: Request, pk: UUID) -> Response:
        row = self.find()
        asked = read(PrioritySerializer(data=request.data))["priority"]
        return self.answered(actions.prioritize(by=self.user, workload=row, priority=asked))

    @extend_schema(
        description="Gives a job that holds room a longer deadline, which is its whole one from now on.",
        request=DeadlineSerializer,
    )
    @action(detail=True, methods=["post"])
    def deadline(self, request: Request, pk: UUID) -> Response:
        row = self.find()
        deadline.require(by=self.user, workload=row)
        deadline_s = read(DeadlineSerializer(data=request.data))["deadline_s"]
        return self.answered(deadline.extend(by=self.user, workload=row, deadline_s=deadline_s))

    @extend_schema(
        description="Moves a queued job before, or behind, all others of its namespace in the queue.",
        request=OrderSerializer,
    )
    @action(detail=True, methods=["post"])
    def order(self, request: Request, pk: UUID) -> Response:
        row = self.find()
        to = read(OrderSerializer(data=request.data))["to"]
        return self.answered(actions.reorder(by=self.user, workload=row, to_front=to == "front"))

    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        tenant = Tenant.objects.own_of(self.user)
        spec = self.read(tenant)
        found = fit(self.kind, spec, tenant, self.user)
        manifests = to_yaml(preview_documents(self.kind, spec, tenant))
        answer = {"fit": {"kind": found.kind, "text": found.text}, "manifests": manifests}
        return Response({**answer, "hints": self.kind.hints(spec)})

    @extend_schema(
        description="Reads a training that a file describes, and says every error with its line. Nothing is "
        "submitted: the answer's `body` is what `jobs/` takes.",
        request=DocumentSerializer,
        responses={200: AskedSerializer},
    )
    @action(detail=False, methods=["post"])
    def document(self, request: Request) -> Response:
        asked = read(DocumentSerializer(data=request.data))
        check = self.kind.reader(Tenant.objects.own_of(self.user), self.user)
        found = read_asked(asked["text"], asked["changes"], check, has_code=asked["has_code"])
        return Response(AskedSerializer(found).data)

    @extend_schema(
        description=f"Deletes finished trainings by age with rows, logs and files, {pruning.MOST} by a "
        "call; unless `dry_run` is false it only says what would go.",
        parameters=[
            OpenApiParameter("tenant", OpenApiTypes.UUID, description="a namespace; absent: own")
        ],
        request=PruneSerializer,
        responses={200: PrunedSerializer},
    )
    @action(detail=False, methods=["post"])
    def prune(self, request: Request) -> Response:
        body = PruneSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        done = actions.prune(
            by=self.user,
            tenant=named_tenant(self.user, request.query_params.get("tenant", "")),
            older_than_s=asked["older_than"],
            states=asked.get("states", FINAL_STATES),
            before=asked.get("before"),
            is_dry=asked["dry_run"],
        )
        return Response(PrunedSerializer(done).data)

    @extend_schema(
        description="The manifests that were rendered at admission, as YAML; secret values are never "
        "in them.",
        responses={(200, "application/yaml"): OpenApiTypes.STR},
    )
    @action(detail=True)
    def manifests(self, request: Request, pk: UUID) -> HttpResponse:
        text = to_yaml(private.shown_plan(self.find(), self.user))
        return HttpResponse(text, content_type="application/yaml; charset=utf-8")

    @extend_schema(
        description="Manifests that run it without Homeport, as YAML, for its owner.",
        parameters=[OpenApiParameter("as", required=True, enum=[*FORMS])],
        responses={(200, "application/yaml"): OpenApiTypes.STR},
    )
    @action(detail=True, content_negotiation_class=AnyAccept)
    def export(self, request: Request, pk: UUID) -> HttpResponse:
        _name, text = exported(self.find(), request.query_params.get("as", ""), self.user)
        return HttpResponse(text, content_type="application/yaml; charset=utf-8")

    @extend_schema(
        description="The log so far as text: of one replica, or of all with prefixes.",
        parameters=LOG_PARAMETERS,
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    @action(detail=True, content_negotiation_class=AnyAccept)
    def logs(self, request: Request, pk: UUID) -> StreamingHttpResponse:
        job = self.find()
        return downloads.log_answer(request._request, job, log_request(job, request.query_params))

    @extend_schema(
        description="Asks for what of an array that has ended has not succeeded, as a new training.",
        parameters=[idempotency.PARAMETER],
        request=None,
        responses={201: OneJobSerializer},
    )
    @action(detail=True, methods=["post"], url_path="rerun-failed", url_name="rerun-failed")
    def rerun_failures(self, request: Request, pk: UUID) -> Response:
        def read() -> Asked:
            workload = self.find()
            return workload.tenant, actions.read_unfinished(by=self.user, workload=workload)

        return self.submitted(request, None, read)

    @extend_schema(description="Files that a job left.", responses=ArtifactSerializer(many=True))
    @action(detail=True)
    def artifacts(self, request: Request, pk: UUID) -> Response:
        return self.page_of(
            self.find().artifacts.filter(uploaded_at__isnull=False), ArtifactSerializer
        )

    @extend_schema(
        description="One file that a job left.",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    @action(
        detail=True,
        url_path="artifacts/<uuid:artifact_id>",
        url_name="artifact",
        content_negotiation_class=AnyAccept,
    )
    def artifact(self, request: Request, pk: UUID, artifact_id: UUID) -> StreamingHttpResponse:
        found = get_object_or_404(self.find().artifacts, pk=artifact_id, uploaded_at__isnull=False)
        return downloads.artifact_answer(request._request, found)


def _descriptions(kind: WorkloadKind) -> dict[str, Any]:
    """Action -> what the OpenAPI document says of it, in the words that it has always had."""
    rest, one = kind.rest, kind.rest.one
    both = f"{one[0].upper()}{one[1:]}s that the caller may see, newest first; POST {rest.ask} one."
    filters = [
        OpenApiParameter("state", enum=[state.value for state in kind.states]),
        OpenApiParameter("name", description="part of the name"),
        OpenApiParameter("owner", description="user name of the owner"),
        OpenApiParameter("id", description="how the id begins, at least 4 of its digits"),
    ]
    if kind.is_archived:
        filters.append(OpenApiParameter("topology", description="one, or several between commas"))
    said = {
        "list": extend_schema(description=both, parameters=filters),
        "create": extend_schema(
            description=both,
            parameters=[idempotency.PARAMETER, dry_run.PARAMETER],
            request=kind.serializer,
            responses={201: rest.answer, 200: DryRunSerializer},
        ),
        "retrieve": extend_schema(
            description=f"One {one}.", parameters=[conditional.IF_NONE_MATCH]
        ),
        "destroy": extend_schema(
            description=f"One {one}.", parameters=[conditional.IF_MATCH], responses={204: None}
        ),
        "events": extend_schema(
            description=f"What happened to a {one}, oldest first.",
            responses=rest.event_answer(many=True),
        ),
        "stop": extend_schema(
            description=rest.stop or f"Stops a {one}.",
            request=StopSerializer,
            responses={200: rest.answer},
        ),
    }
    if kind.has_gate:
        start, opens = f"Starts a {one} again.", f"Opens a {one}: the link is a secret of the "
        said["start"] = extend_schema(description=start, request=None, responses={200: rest.answer})
        said["open"] = extend_schema(
            description=f"{opens}caller's browser.", request=None, responses={200: LinkSerializer}
        )
    if kind.is_archived:
        said["preview"] = extend_schema(
            description="What a submit would do: whether it fits, and the manifests.",
            request=kind.serializer,
            responses={200: PreviewSerializer},
        )
    return said


def _view_set(kind: WorkloadKind) -> type[WorkloadViewSet]:
    """REST of a kind: what all have, and what its sort has."""
    sorts = {ArchivedViewSet: kind.is_archived, GatedViewSet: kind.has_gate}
    bases = tuple(view for view, is_so in sorts.items() if is_so) or (WorkloadViewSet,)
    made = type(f"{kind.key.capitalize()}ViewSet", bases, {"kind": kind})
    view: type[WorkloadViewSet] = extend_schema_view(**_descriptions(kind))(made)
    return view


router = Router(use_regex_path=False)
router.register("bundles", BundleViewSet, "api-bundle")
router.register("templates", TemplateViewSet, "api-template")
for kind in KINDS.values():
    router.register(f"{kind.key}s", _view_set(kind), f"api-{kind.key}")
