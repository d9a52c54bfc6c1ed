"""The forms of a new notebook and a new TensorBoard: what was typed, the REST body that it means, and
errors at its fields. The rules themselves are those of REST (the serializers beside their kinds).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import serializers

from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.spec import NotebookSpec, TensorBoardSpec
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.spec import WorkloadSpec, spec_of
from jobs.kinds.tensorboard import MAX_LOG_DIRS, TENSORBOARD
from jobs.kinds.training.kind import TRAINING
from jobs.models import Workload
from portal import quantity
from portal.catalog import get_catalog
from portal.errors import FieldError
from portal.web.forms import SpecForm
from tenants.models import Tenant, User

# Values of the choices that open a field to type in.
OTHER_IMAGE = "other"
OWN_SIZE = "own"


class ServiceForm(SpecForm, ABC):
    """One filled-in form.

    Attributes:
        labels: of the fields that a body has not, or not under this label.
        jobs: the ids of trainings that are ticked.
    """

    kind: ClassVar[WorkloadKind]
    labels: ClassVar[Mapping[str, Any]]

    def __init__(
        self,
        posted: QueryDict | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        jobs: Iterable[str] = (),
    ) -> None:
        """
        Args:
            shown: name -> text where it is not that of a blank form.
            jobs: the trainings that are ticked, where nothing was posted.
        """
        own = {name: serializers.CharField(label=label) for name, label in self.labels.items()}
        fields = {**self.kind.serializer().fields, **own}
        super().__init__(fields, posted, shown={**self.blank(), **(shown or {})})
        self.jobs = list(jobs) if posted is None else posted.getlist("jobs")

    def blank(self) -> dict[str, str]:
        """The texts of a blank form."""
        return {}

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The REST body."""

    @abstractmethod
    def missing(self) -> dict[str, str]:
        """Field -> words: what REST fills in must be typed where somebody chose to type it."""

    @classmethod
    @abstractmethod
    def like(cls, service: Workload) -> "ServiceForm":
        """The form that would ask for one like it."""

    @classmethod
    def of(cls, jobs: list[str], name: str = "") -> "ServiceForm":
        """A blank form; one of a TensorBoard with these trainings ticked."""
        return cls(shown={"name": name})

    def offered_jobs(self, tenant: Tenant) -> list[Workload]:
        """Trainings to tick."""
        return []

    def read(self, tenant: Tenant, user: User) -> WorkloadSpec | None:
        """The checked request, or None with the errors in the form."""
        self.errors |= {name: [text] for name, text in self.missing().items()}
        spec = self.attempt(lambda: self.kind.read(self.body(), tenant=tenant, user=user))
        return None if self.is_wrong else spec

    def take(self, errors: Iterable[FieldError]) -> None:
        # One is enough for a field, and the form itself says better what it could not read.
        super().take(error for error in errors if self.place(error)[0] not in self.errors)

    def name_if_blank(self) -> None:
        """Gives it a name where none is typed yet, to tell early what fits."""
        self.values["name"] = self.values["name"] or self.kind.key


class NotebookForm(ServiceForm):
    kind = NOTEBOOK
    labels: ClassVar[Mapping[str, Any]] = {"image_other": gettext_lazy("Image")}

    def blank(self) -> dict[str, str]:
        catalog = get_catalog()
        offered = catalog.notebooks
        size = catalog.notebook_sizes[offered.sizes.default]
        return {
            "image": offered.images.default,
            "size": offered.sizes.default,
            "cpu": quantity.cpu_text(size.cpu_millicores),
            "memory": quantity.memory_text(size.memory_bytes),
            "gpu": str(offered.gpu.max) if offered.gpu.locked else "0",
        }

    def body(self) -> dict[str, Any]:
        values = self.values
        is_other = values["image"] == OTHER_IMAGE
        image = values["image_other"] if is_other else values["image"]
        body = {"name": values["name"], "image": image, "gpu": values["gpu"]}
        typed = ("cpu", "memory") if values["size"] == OWN_SIZE else ("size",)
        return {**body, **{name: values[name] for name in typed}}

    def missing(self) -> dict[str, str]:
        texts = {}
        if self.values["image"] == OTHER_IMAGE:
            texts["image_other"] = _(
                "Enter the image, for example quay.io/jupyter/scipy-notebook:latest."
            )
        if self.values["size"] == OWN_SIZE:
            texts["cpu"] = _("Enter the number of cores, for example 2.")
            texts["memory"] = _("Enter the memory, for example 4Gi.")
        return {name: text for name, text in texts.items() if not self.values[name]}

    def place(self, error: FieldError) -> tuple[str, str]:
        name, text = super().place(error)
        if name == "image" and self.values["image"] == OTHER_IMAGE:
            name = "image_other"
        elif error.code == "never_fits" and name in {"cpu", "memory"}:
            name = "size"
        return name, text

    @classmethod
    def like(cls, service: Workload) -> ServiceForm:
        catalog = get_catalog()
        (each,) = spec_of(service, NotebookSpec).replicas.values()
        asked = (each.cpu_millicores, each.memory_bytes)
        sizes = catalog.notebook_sizes.values()
        slugs = [s.slug for s in sizes if (s.cpu_millicores, s.memory_bytes) == asked]
        is_listed = catalog.notebooks.images.lists(service.image)
        shown = {
            "name": service.name,
            "image": service.image if is_listed else OTHER_IMAGE,
            "image_other": "" if is_listed else service.image,
            "size": slugs[0] if slugs else OWN_SIZE,
            "cpu": quantity.cpu_text(each.cpu_millicores),
            "memory": quantity.memory_text(each.memory_bytes),
            "gpu": str(each.gpu_count),
        }
        return cls(shown=shown)


class TensorBoardForm(ServiceForm):
    kind = TENSORBOARD
    labels: ClassVar[Mapping[str, Any]] = {"scope": "", "jobs": gettext_lazy("Trainings")}

    def blank(self) -> dict[str, str]:
        return {"scope": "all"}

    def body(self) -> dict[str, Any]:
        chosen = {"jobs": self.jobs} if self.values["scope"] == "jobs" else {}
        return {"name": self.values["name"], **chosen}

    def missing(self) -> dict[str, str]:
        text = _("Select at least one training, or all of the log volume.")
        return {"jobs": text} if self.values["scope"] == "jobs" and not self.jobs else {}

    def place(self, error: FieldError) -> tuple[str, str]:
        is_deleted = error.field.startswith("jobs.")
        text = _("One of the selected trainings was deleted.")
        return ("jobs", text) if is_deleted else super().place(error)

    @classmethod
    def like(cls, service: Workload) -> ServiceForm:
        shown = spec_of(service, TensorBoardSpec).log_dirs
        return cls.of([row["job"] for row in shown if row.get("job")], name=service.name)

    @classmethod
    def of(cls, jobs: list[str], name: str = "") -> ServiceForm:
        return cls(shown={"name": name, "scope": "jobs" if jobs else "all"}, jobs=jobs)

    def offered_jobs(self, tenant: Tenant) -> list[Workload]:
        """The latest trainings, those that are ticked first; others are reached from their own pages."""
        own = Workload.objects.visible_to(tenant.owner).filter(tenant=tenant, kind=TRAINING.key)
        own = own.for_lists().order_by("-queued_at", "pk")
        ticked = list(own.filter(pk__in=ids_of(self.jobs)))
        others = own.exclude(pk__in=[job.pk for job in ticked])
        return ticked + list(others[: max(0, MAX_LOG_DIRS - len(ticked))])


def ids_of(texts: Iterable[str]) -> list[UUID]:
    """Those that are ids; the others are told by the rules of REST."""
    found = []
    for text in list(texts)[:MAX_LOG_DIRS]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


FORMS: Mapping[str, type[ServiceForm]] = {
    form.kind.key: form for form in (NotebookForm, TensorBoardForm)
}
