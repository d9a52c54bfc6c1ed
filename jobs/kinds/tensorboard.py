"""TensorBoards: the program of that name over the log folders of trainings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.fields.json import KT
from django.http import QueryDict
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from jobs.kinds.answers import PLACE_FIELDS, PlacedSerializer
from jobs.kinds.base import StopTexts
from jobs.kinds.form import WorkloadForm, ids_of
from jobs.kinds.interactive.answers import ServiceSerializer
from jobs.kinds.interactive.kind import CAN_START_AGAIN, served_kind
from jobs.kinds.interactive.lifecycle import InteractiveLifecycle
from jobs.kinds.interactive.manifests import Served
from jobs.kinds.interactive.pages import served_pages
from jobs.kinds.interactive.spec import TensorBoardSpec
from jobs.kinds.interactive.startup import ServedApp
from jobs.kinds.manifests import PodSettings
from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import spec_of
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.manifests import LOG_ROOT
from jobs.models import Workload
from jobs.rules.requests import RoleRequest
from jobs.rules.states import Desired
from portal.cluster import names
from portal.errors import FieldError
from portal.web.fields import Omissible
from tenants.models import Tenant, User

MAX_LOG_DIRS = 50
_TITLES_SHOWN = 3
_NAME_LENGTH = 80  # the most that a name may have


def _environment(workload: Workload, pods: PodSettings) -> dict[str, str]:
    shown = [dict(row) for row in spec_of(workload, TensorBoardSpec).log_dirs]
    return {
        "APP_LOG_DIRS": json.dumps(shown, ensure_ascii=False),
        "APP_SERVICE_ID": str(workload.pk),
        "APP_START": str(workload.generation),
        "HOMEPORT_URL": pods.portal_url,
    }


SERVED = Served(
    word="TensorBoard",
    launcher=("start_tensorboard", "portal_client", "errors", "files"),
    writable=(),
    readable=("log",),
    ready_path="",
    app_secret="portal_token",
    working_dir="/log",
    environment=_environment,
)


class TensorBoardLifecycle(InteractiveLifecycle):
    app = ServedApp("the TensorBoard", "TensorBoard")


@extend_schema_field(serializers.UUIDField())
class _Training(Omissible):
    """An id as it was sent; the serializer looks it up."""

    def to_internal_value(self, data: Any) -> Any:
        return data


@extend_schema_field(serializers.ListField(child=serializers.UUIDField()))
class _Trainings(_Training):
    """Ids as they were sent; none of them is as good as nothing sent."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return super().validate_empty_values(None if data in ([], ()) else data)


@extend_schema_serializer(component_name="TensorBoardBody")
class TensorBoardSerializer(SpecSerializer):
    """The body that asks for a TensorBoard; without a training it shows all of the log volume."""

    default_error_messages = {
        "not_found": _("You have no such training."),
        "both": _("Give job or jobs, not both."),
        "not_a_list": _("This must be a list of ids of trainings."),
        "too_many": _("At most {most} trainings; leave it empty to see all of them."),
    }

    job = _Training(required=False)
    jobs = _Trainings(required=False)

    def validate_job(self, given: Any) -> tuple[Mapping[str, str], ...]:
        # Of both, `validate_jobs` tells.
        is_alone = self.initial_data.get("jobs") in (None, "", [], ())
        return self._log_dirs([given], is_list=False) if is_alone else ()

    def validate_jobs(self, given: Any) -> tuple[Mapping[str, str], ...]:
        if self.initial_data.get("job") not in (None, ""):
            self._refuse("both")
        if not isinstance(given, list | tuple):
            self._refuse("not_a_list")
        if len(given) > MAX_LOG_DIRS:
            self.fail("too_many", most=MAX_LOG_DIRS)
        return self._log_dirs(given, is_list=True)

    def validate(self, attrs: Mapping[str, Any]) -> TensorBoardSpec:
        made_of = self.context["catalog"].tensorboard
        each = RoleRequest(1, made_of.cpu_millicores, made_of.memory_bytes)
        return TensorBoardSpec(
            name=attrs["name"],
            image=made_of.image,
            replicas={TENSORBOARD.key: each},
            log_dirs=attrs.get("jobs") or attrs.get("job") or (),
        )

    def _refuse(self, key: str) -> NoReturn:
        raise serializers.ValidationError(self.error_messages[key], "invalid")

    def _log_dirs(self, ids: Sequence[Any], *, is_list: bool) -> tuple[Mapping[str, str], ...]:
        """The folders of the chosen trainings, in the order given, each under a title of its own."""
        # Only what is on this tenant's own log volume can be shown.
        found: dict[str, Any] = {
            str(job.pk): job
            for job in Workload.objects.visible_to(self.context["user"])
            .filter(kind=TRAINING.key, tenant=self.context["tenant"])
            .filter(pk__in={pk for pk in map(_uuid, ids) if pk})
            .only("pk", "name")
            .annotate(log_folder=KT("spec__log_folder"))
        }
        chosen: dict[str, Mapping[str, str]] = {}
        missing: dict[str, Any] = {}
        for place, pk in enumerate(map(_uuid, ids)):
            job = found.get(str(pk))
            if job is None:
                text = str(self.error_messages["not_found"])
                missing[str(place)] = serializers.ErrorDetail(text, "not_found")
                continue
            if str(pk) in chosen:
                continue
            title = job.name
            if any(row["title"] == title for row in chosen.values()):
                title = f"{job.name} {names.short_id(job.pk)}"
            path = job.log_folder or f"{LOG_ROOT}/{names.job_name(job.name, job.pk)}"
            chosen[str(pk)] = {"title": title, "path": path, "job": str(pk)}
        if missing:
            raise serializers.ValidationError(missing if is_list else missing["0"])
        return tuple(chosen.values())


def body_of(jobs: Sequence[Workload]) -> dict[str, Any]:
    """The body that asks for a TensorBoard of these trainings, named after them."""
    name = jobs[0].name
    if len(jobs) > 1:
        more = f" and {len(jobs) - 1} more"
        name = name[: _NAME_LENGTH - len(more)] + more
    return {"name": name, "jobs": [str(job.pk) for job in jobs]}


def _find_same(tenant: Tenant, spec: TensorBoardSpec) -> Workload | None:
    """The one of exactly these trainings; one that runs before one that does not."""
    boards = Workload.objects.visible_to(tenant.owner).filter(tenant=tenant, kind=TENSORBOARD.key)
    same = [
        board for board in boards if _trainings(spec_of(board, TensorBoardSpec)) == _trainings(spec)
    ]
    return min(same, key=lambda b: (b.desired != Desired.RUN, b.is_final), default=None)


def _trainings(spec: TensorBoardSpec) -> set[str | None]:
    return {row.get("job") for row in spec.log_dirs}


def _uuid(given: Any) -> UUID | None:
    """None: it is no id."""
    try:
        return UUID(given) if isinstance(given, str) else None
    except ValueError:
        return None


class LogDirSerializer(serializers.Serializer[Any]):
    """A folder that a TensorBoard shows."""

    title = serializers.CharField()
    path = serializers.CharField()
    job = serializers.UUIDField()


@extend_schema_serializer(component_name="TensorBoard")
class ShownTensorBoardSerializer(ServiceSerializer):
    """With what it shows."""

    log_dirs = LogDirSerializer(many=True)
    event_files = serializers.IntegerField(
        allow_null=True, help_text="found below its folders; null: not known yet"
    )

    class Meta(ServiceSerializer.Meta):
        fields = (*ServiceSerializer.Meta.fields, "log_dirs", "event_files")

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say."""
        return {
            **super().to_representation(instance),
            "log_dirs": instance.spec["log_dirs"],
            "event_files": instance.event_files,
        }


@extend_schema_serializer(component_name="OneTensorBoard")
class OneTensorBoardSerializer(PlacedSerializer, ShownTensorBoardSerializer):
    """One TensorBoard."""

    class Meta(ShownTensorBoardSerializer.Meta):
        fields = (*ShownTensorBoardSerializer.Meta.fields, *PLACE_FIELDS)


class TensorBoardForm(WorkloadForm):
    """
    Attributes:
        jobs: the ids of trainings that are ticked.
    """

    serializer = TensorBoardSerializer
    labels: ClassVar[Mapping[str, Any]] = {"scope": "", "jobs": _("Trainings")}
    template = "tensorboard/new.html"
    stand_in = "tensorboard"

    def __init__(
        self,
        posted: QueryDict | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        jobs: Iterable[str] = (),
    ) -> None:
        """
        Args:
            jobs: the trainings that are ticked, where nothing was posted.
        """
        super().__init__(posted, shown=shown)
        self.jobs = list(jobs) if posted is None else posted.getlist("jobs")

    @classmethod
    def blank(cls) -> dict[str, str]:
        return {"scope": "all"}

    def body(self) -> dict[str, Any]:
        chosen = {"jobs": self.jobs} if self.values["scope"] == "jobs" else {}
        return {"name": self.values["name"], **chosen}

    def unreadable(self) -> dict[str, str]:
        text = gettext("Select at least one training, or all of the log volume.")
        return {"jobs": text} if self.values["scope"] == "jobs" and not self.jobs else {}

    def place(self, error: FieldError) -> tuple[str, str]:
        is_deleted = error.field.startswith("jobs.")
        text = gettext("One of the selected trainings was deleted.")
        return ("jobs", text) if is_deleted else super().place(error)

    @classmethod
    def like(cls, workload: Workload, user: User) -> "TensorBoardForm":
        shown = spec_of(workload, TensorBoardSpec).log_dirs
        return cls.of([row["job"] for row in shown if row.get("job")], name=workload.name)

    @classmethod
    def of_query(cls, query: QueryDict) -> "TensorBoardForm":
        return cls.of(query.getlist("job"))

    @classmethod
    def of(cls, jobs: Sequence[str], name: str = "") -> "TensorBoardForm":
        """A blank form with these trainings ticked."""
        return cls(shown={"name": name, "scope": "jobs" if jobs else "all"}, jobs=jobs)

    def ticked(self, tenant: Tenant) -> list[Workload]:
        """The trainings that are ticked, without those that are not there; the latest first."""
        return list(_trainings_of(tenant).filter(pk__in=ids_of(self.jobs)))

    def page_context(self, tenant: Tenant) -> dict[str, Any]:
        """Offered are those that are ticked and the latest; others are reached from their own pages."""
        ticked = self.ticked(tenant)
        others = _trainings_of(tenant).exclude(pk__in=[job.pk for job in ticked])
        offered = ticked + list(others[: max(0, MAX_LOG_DIRS - len(ticked))])
        return {"jobs": offered}


def _trainings_of(tenant: Tenant) -> QuerySet[Workload]:
    own = Workload.objects.visible_to(tenant.owner).filter(tenant=tenant, kind=TRAINING.key)
    trainings: QuerySet[Workload] = own.for_lists().order_by("-queued_at", "pk")
    return trainings


def _shown_titles(workload: Workload) -> str:
    """What it shows, in a few words."""
    titles = [str(row["title"]) for row in workload.spec.get("log_dirs", [])]
    if not titles:
        return gettext("all of the log volume")
    text = ", ".join(titles[:_TITLES_SHOWN])
    more = len(titles) - _TITLES_SHOWN
    return f"{text} {gettext('and %(n)s more') % {'n': more}}" if more > 0 else text


TENSORBOARD = served_kind(
    SERVED,
    key="tensorboard",
    title=_("TensorBoard"),
    icon="chart",
    open_verb="open_shared",
    answer=OneTensorBoardSerializer,
    list_answer=ShownTensorBoardSerializer,
    stop=StopTexts(button=_("Stop TensorBoard"), own=CAN_START_AGAIN, of_other=CAN_START_AGAIN),
    pages=served_pages(
        slug="tensorboard",
        title=_("TensorBoards"),
        new=_("New TensorBoard"),
        none_in_state=_("No TensorBoards in this state"),
        summary=_shown_titles,
        summary_title=_("Logs"),
        summary_columns=("spec",),
        stop_all=ngettext_lazy("Stop 1 TensorBoard?", "Stop %(num)s TensorBoards?", "num"),
        stop_all_text=_("Nothing is lost: a TensorBoard only reads, and it can be started again."),
        delete_going=_(
            "It is stopped at once. Its page and events are deleted permanently. The data and log "
            "volumes stay as they are."
        ),
    ),
    find_same=_find_same,
    spec=TensorBoardSpec,
    serializer=TensorBoardSerializer,
    form=TensorBoardForm,
    lifecycle=TensorBoardLifecycle,
)
