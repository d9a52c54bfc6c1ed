"""Notebooks: JupyterLab in an image of the user's choice."""

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar

from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from drf_spectacular.drainage import set_override
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from jobs.kinds.answers import PLACE_FIELDS, PlacedSerializer
from jobs.kinds.base import StopTexts
from jobs.kinds.form import SecretsForm
from jobs.kinds.interactive.answers import ServiceSerializer
from jobs.kinds.interactive.kind import served_kind
from jobs.kinds.interactive.lifecycle import InteractiveLifecycle
from jobs.kinds.interactive.manifests import Served
from jobs.kinds.interactive.pages import served_pages
from jobs.kinds.interactive.spec import NotebookSpec
from jobs.kinds.interactive.startup import ServedApp
from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import spec_of
from jobs.kinds.training.submit import check_secrets
from jobs.kinds.training.variables import SecretUses
from jobs.models import Workload
from jobs.rules.requests import RoleRequest
from jobs.rules.states import Desired, WorkloadState
from portal import quantity
from portal.catalog import Catalog, Notebooks, get_catalog
from portal.errors import ConfigurationError, FieldError
from portal.web.fields import (
    Choice,
    CpuRequest,
    ImageReference,
    Integer,
    MemoryRequest,
    Omissible,
    as_whole,
)
from tenants.models import Tenant, User


def packages_folder(image: str) -> str:
    """Where pip keeps what it installs in notebooks with this image: those of another would not fit."""
    return "/data/.local/" + re.sub(r"[^A-Za-z0-9._-]+", "-", image)


SERVED = Served(
    word="notebook",
    launcher=("start_jupyter", "files", "sampling", "nvml", "portal_client", "errors"),
    writable=("data", "log"),
    readable=(),
    ready_path="api",
    app_secret="app_token",
    working_dir="/data",
    environment=lambda workload, pods: {
        "DATA_DIR": "/data",
        "LOG_DIR": "/log",
        "APP_PACKAGES": packages_folder(workload.image),
        "APP_USAGE_URL": pods.portal_url,
        "APP_USAGE_PATH": f"services/{workload.pk}/usage/{workload.generation}/",
    },
    tells_usage=True,
)


class NotebookLifecycle(InteractiveLifecycle):
    app = ServedApp("the notebook", "JupyterLab")


class Locked(Omissible):
    """What an admin has decided for all: it may be left out, or be `only` what it is anyway."""

    def __init__(
        self, free: serializers.Field[Any, Any, Any, Any], text: Any, *, only: int | None = None
    ) -> None:
        """
        Args:
            free: the field where nothing is locked; the OpenAPI document has it.
        """
        super().__init__(required=False, label=free.label)
        set_override(self, "field", free)
        self._text, self._only = text, only

    def to_internal_value(self, data: Any) -> int:
        if self._only is None or as_whole(data) != self._only:
            raise serializers.ValidationError(self._text, "locked")
        return self._only


@extend_schema_serializer(component_name="NotebookBody")
class NotebookSerializer(SpecSerializer):
    """The body that asks for a notebook; what is left out comes from the catalog."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            **super().get_fields(),
            "image": ImageReference(
                attrgetter("notebooks.images"), label=_("Image"), required=False
            ),
            "size": Choice(
                list(self._catalog.notebook_sizes),
                label=_("Size"),
                help_text="a size of the catalog",
                required=False,
            ),
            **_amount_fields(self._catalog.notebooks),
            "secrets": SecretUses(label=_("Secrets"), default=dict),
        }

    @property
    def _catalog(self) -> Catalog:
        return self.context.get("catalog") or get_catalog()

    def validate(self, attrs: Mapping[str, Any]) -> NotebookSpec:
        offered = self._catalog.notebooks
        size = self._catalog.notebook_sizes[attrs.get("size", offered.sizes.default)]
        each = RoleRequest(
            count=1,
            cpu_millicores=attrs.get("cpu", size.cpu_millicores),
            memory_bytes=attrs.get("memory", size.memory_bytes),
            gpu_count=offered.gpu.max if offered.gpu.locked else attrs.get("gpu", 0),
        )
        image = attrs.get("image", offered.images.default)
        return NotebookSpec(
            name=attrs["name"],
            image=image,
            replicas={NOTEBOOK.key: each},
            secrets=attrs["secrets"],
        )


def _amount_fields(offered: Notebooks) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """What overrides the size, where the admin lets it."""
    # JupyterLab does not start with less.
    cpu = CpuRequest(least=100, most=1_000_000, label=_("CPU"), required=False)
    memory = MemoryRequest(least=2**28, most=2**44, label=_("Memory"), required=False)
    gpu = Integer(most=offered.gpu.max, label=_("GPU"), required=False)
    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {
        "cpu": cpu,
        "memory": memory,
        "gpu": gpu,
    }
    if offered.sizes.locked:
        text = _("Your admin offers sizes only; choose one of them.")
        fields |= {"cpu": Locked(cpu, text), "memory": Locked(memory, text)}
    if offered.gpu.locked:
        said = _("Your admin gives each notebook {most} GPU.").format(most=offered.gpu.max)
        fields["gpu"] = Locked(gpu, said, only=offered.gpu.max)
    return fields


# Values of the choices that open a field to type in.
OTHER_IMAGE = "other"
OWN_SIZE = "own"


class NotebookForm(SecretsForm):
    serializer = NotebookSerializer
    labels: ClassVar[Mapping[str, Any]] = {"image_other": _("Image")}
    template = "notebook/new.html"
    stand_in = "notebook"

    @classmethod
    def blank(cls) -> dict[str, str]:
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
        body: dict[str, Any] = {"name": values["name"], "image": image, "gpu": values["gpu"]}
        typed = ("cpu", "memory") if values["size"] == OWN_SIZE else ("size",)
        return {**body, **{name: values[name] for name in typed}, "secrets": self.secrets}

    def unreadable(self) -> dict[str, str]:
        texts = {}
        if self.values["image"] == OTHER_IMAGE:
            texts["image_other"] = gettext(
                "Enter the image, for example quay.io/jupyter/scipy-notebook:latest."
            )
        if self.values["size"] == OWN_SIZE:
            texts["cpu"] = gettext("Enter the number of cores, for example 2.")
            texts["memory"] = gettext("Enter the memory, for example 4Gi.")
        return {name: text for name, text in texts.items() if not self.values[name]}

    def place(self, error: FieldError) -> tuple[str, str]:
        name, text = super().place(error)
        if name == "image" and self.values["image"] == OTHER_IMAGE:
            name = "image_other"
        elif error.code == "never_fits" and name in {"cpu", "memory"}:
            name = "size"
        return name, text

    @classmethod
    def like(cls, workload: Workload, user: User) -> "NotebookForm":
        catalog = get_catalog()
        spec = spec_of(workload, NotebookSpec)
        (each,) = spec.replicas.values()
        asked = (each.cpu_millicores, each.memory_bytes)
        sizes = catalog.notebook_sizes.values()
        slugs = [s.slug for s in sizes if (s.cpu_millicores, s.memory_bytes) == asked]
        is_listed = catalog.notebooks.images.lists(workload.image)
        shown = {
            "name": workload.name,
            "image": workload.image if is_listed else OTHER_IMAGE,
            "image_other": "" if is_listed else workload.image,
            "size": slugs[0] if slugs else OWN_SIZE,
            "cpu": quantity.cpu_text(each.cpu_millicores),
            "memory": quantity.memory_text(each.memory_bytes),
            "gpu": str(each.gpu_count),
        }
        return cls(shown=shown, secrets=spec.secrets)


@extend_schema_serializer(component_name="Service")
class ShownNotebookSerializer(ServiceSerializer):
    """With the secrets that it is given."""

    secrets = serializers.DictField(child=serializers.CharField(), read_only=True)

    class Meta(ServiceSerializer.Meta):
        fields = (*ServiceSerializer.Meta.fields, "secrets")

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say."""
        return {
            **super().to_representation(instance),
            "secrets": instance.spec.get("secrets", {}),
        }


@extend_schema_serializer(component_name="OneService")
class OneNotebookSerializer(PlacedSerializer, ShownNotebookSerializer):
    """One notebook."""

    class Meta(ShownNotebookSerializer.Meta):
        fields = (*ShownNotebookSerializer.Meta.fields, *PLACE_FIELDS)


def _image_title(workload: Workload) -> str:
    """What the catalog calls its image; "" for one that is not offered any more, or while the file cannot be used."""
    try:
        catalog = get_catalog()
    except ConfigurationError:
        return ""
    offered = (*catalog.notebooks.images.offered, *catalog.images.offered)
    return next((image.title for image in offered if image.reference == workload.image), "")


NOTEBOOK = served_kind(
    SERVED,
    key="notebook",
    title=_("Notebook"),
    icon="notebook",
    open_verb="open_private",
    stop=StopTexts(
        button=_("Stop notebook"),
        own=_(
            "Unsaved changes and everything in the memory of running kernels are lost. What is on the "
            "volumes is kept, and it can be started again."
        ),
        of_other=_(
            "{person} may be working in it: unsaved changes and everything in the memory of running "
            "kernels are lost. What is on the volumes is kept, and it can be started again."
        ),
    ),
    pages=served_pages(
        slug="notebook",
        title=_("Notebooks"),
        new=_("New notebook"),
        none_in_state=_("No notebooks in this state"),
        summary=lambda workload: _image_title(workload) or workload.image,
        summary_title=_("Image"),
        summary_columns=("image",),
        subtitle=_image_title,
        stays_at_hand=True,
        stop_all=ngettext_lazy("Stop 1 notebook?", "Stop %(num)s notebooks?", "num"),
        stop_all_text=_(
            "Unsaved changes and everything in the memory of running kernels are lost. Files under "
            "/data and /log are kept, and each can be started again."
        ),
        delete_going=_(
            "It is stopped at once, and unsaved work in it is lost. Its page and events are deleted "
            "permanently. The data and log volumes stay as they are."
        ),
        loses_work=True,
    ),
    spec=NotebookSpec,
    serializer=NotebookSerializer,
    form=NotebookForm,
    lifecycle=NotebookLifecycle,
    answer=OneNotebookSerializer,
    list_answer=ShownNotebookSerializer,
    check_submit=lambda tenant, spec: check_secrets(tenant, spec.secrets),
)


def running_notebook(tenant: Tenant, user: User) -> Workload | None:
    """The one of a namespace that has begun to run last, if the user may see it; None: there is none."""
    rows = Workload.objects.visible_to(user).filter(tenant=tenant, kind=NOTEBOOK.key)
    running = rows.filter(state=WorkloadState.RUNNING, desired=Desired.RUN)
    found: Workload | None = running.order_by("-started_at").for_lists().first()
    return found
