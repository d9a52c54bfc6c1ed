"""The forms of a new notebook and a new TensorBoard: what was typed, the REST body that it means, and
errors at its fields. The rules themselves are those of REST (`jobs/services/submission.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.forms import Problem
from jobs.models import Service
from jobs.services.submission import ServiceRequest, parse_notebook, parse_tensorboard
from portal import quantity
from portal.catalog import Notebooks, get_catalog
from portal.errors import FieldError, Refused
from tenants.models import Tenant, User

# Values of the choices that open a field to type in.
OTHER_IMAGE = "other"
OWN_SIZE = "own"
_LABELS = {
    "name": gettext_lazy("Name"),
    "image": gettext_lazy("Image"),
    "image_other": gettext_lazy("Image"),
    "size": gettext_lazy("Size"),
    "cpu": gettext_lazy("CPU"),
    "memory": gettext_lazy("Memory"),
    "gpu": gettext_lazy("GPU"),
    "jobs": gettext_lazy("Trainings"),
}


@dataclass
class ServiceForm:
    """One filled-in form; `jobs` are the ids that are ticked on the form of a TensorBoard."""

    kind: str
    values: dict[str, str]
    jobs: list[str] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)

    @property
    def problems(self) -> list[Problem]:
        """All errors in the order in which they were found."""
        return [
            Problem(name, str(_LABELS.get(name, "")), " ".join(texts))
            for name, texts in self.errors.items()
        ]

    def body(self) -> dict[str, Any]:
        """The REST body."""
        values = {name: value.strip() for name, value in self.values.items()}
        if self.kind == Service.Kind.TENSORBOARD:
            chosen = {"jobs": list(self.jobs)} if values["scope"] == "jobs" else {}
            return {"name": values["name"], **chosen}
        is_other = values["image"] == OTHER_IMAGE
        body = {
            "name": values["name"],
            "image": values["image_other"] if is_other else values["image"],
            "gpu": values["gpu"],
        }
        if values["size"] == OWN_SIZE:
            return {**body, "cpu": values["cpu"], "memory": values["memory"]}
        return {**body, "size": values["size"]}

    def read(self, tenant: Tenant, user: User) -> ServiceRequest | None:
        """The checked request, or None with the errors in the form."""
        body = self.body()
        self._check_typed(body)
        try:
            if self.kind == Service.Kind.TENSORBOARD:
                wanted = parse_tensorboard(body, tenant=tenant, user=user)
            else:
                wanted = parse_notebook(body, tenant=tenant)
        except Refused as refusal:
            self.take_errors(refusal.errors)
            return None
        return None if self.errors else wanted

    def _check_typed(self, body: dict[str, Any]) -> None:
        """What REST fills in with a default must be typed where somebody chose to type it."""
        needed = {
            "image_other": self.values.get("image") == OTHER_IMAGE and not body["image"],
            "cpu": "cpu" in body and not body["cpu"],
            "memory": "memory" in body and not body["memory"],
            "jobs": "jobs" in body and not body["jobs"],
        }
        texts = {
            "image_other": _("Write the image, for example quay.io/jupyter/scipy-notebook:latest."),
            "cpu": _("Write how many cores, for example 2."),
            "memory": _("Write how much memory, for example 4Gi."),
            "jobs": _("Tick at least one training, or show all of the log volume."),
        }
        for name, is_missing in needed.items():
            if is_missing:
                self.errors.setdefault(name, []).append(texts[name])

    def take_errors(self, errors: Iterable[FieldError]) -> None:
        """Errors of the REST rules, put at the fields of this form."""
        for error in errors:
            name, text = error.field, error.text
            if name.startswith("jobs."):
                name, text = "jobs", _("One of the trainings ticked is not there any more.")
            elif name == "image" and self.values.get("image") == OTHER_IMAGE:
                name = "image_other"
            # What the form itself could not read is already said there, and better.
            if text not in self.errors.setdefault(name, []) and not self.errors[name]:
                self.errors[name].append(text)

    def with_fallbacks(self) -> "ServiceForm":
        """The same with a name where none is typed yet, to tell early what fits."""
        name = self.values["name"].strip() or self.kind
        return ServiceForm(self.kind, {**self.values, "name": name}, list(self.jobs))


def _notebook_values(offered: Notebooks) -> dict[str, str]:
    size = offered.size(offered.default_size) or offered.sizes[0]
    return {
        "name": "",
        "image": offered.default_image,
        "image_other": "",
        "size": offered.default_size,
        "cpu": quantity.cpu_text(size.cpu_millicores),
        "memory": quantity.memory_text(size.memory_bytes),
        "gpu": str(offered.max_gpu) if offered.gpu_locked else "0",
    }


def _defaults(kind: str) -> dict[str, str]:
    if kind == Service.Kind.TENSORBOARD:
        return {"name": "", "scope": "all"}
    return _notebook_values(get_catalog().notebooks)


def blank_form(kind: str, *, name: str = "", jobs: Iterable[str] = ()) -> ServiceForm:
    """A form with the catalog's defaults; with `jobs`, these trainings are ticked."""
    form = ServiceForm(kind, {**_defaults(kind), "name": name}, list(jobs))
    if form.jobs:
        form.values["scope"] = "jobs"
    return form


def posted_form(kind: str, data: QueryDict) -> ServiceForm:
    """The form as it was sent; fields that are missing have their defaults."""
    defaults = _defaults(kind)
    given = {name: data.get(name) or "" for name in defaults if name in data}
    return ServiceForm(kind, {**defaults, **given}, data.getlist("jobs"))


def form_of_service(service: Service) -> ServiceForm:
    """The form that would ask for one like it."""
    if service.kind == Service.Kind.TENSORBOARD:
        ids = [str(row["job"]) for row in service.log_dirs if row.get("job")]
        return blank_form(service.kind, name=service.name, jobs=ids)
    offered = get_catalog().notebooks
    form = blank_form(service.kind, name=service.name)
    asked = (service.cpu_millicores, service.memory_bytes)
    slugs = [s.slug for s in offered.sizes if (s.cpu_millicores, s.memory_bytes) == asked]
    form.values.update(
        gpu=str(service.gpu_count),
        size=slugs[0] if slugs else OWN_SIZE,
        cpu=quantity.cpu_text(service.cpu_millicores),
        memory=quantity.memory_text(service.memory_bytes),
    )
    if any(image.reference == service.image for image in offered.images):
        form.values["image"] = service.image
    else:
        form.values.update(image=OTHER_IMAGE, image_other=service.image)
    return form
