"""Notebooks: JupyterLab in an image of the user's choice."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.drainage import set_override
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from jobs.kinds.base import StopTexts
from jobs.kinds.interactive.kind import CAN_START_AGAIN, served_kind
from jobs.kinds.interactive.lifecycle import InteractiveLifecycle
from jobs.kinds.interactive.manifests import Served
from jobs.kinds.interactive.spec import NotebookSpec
from jobs.kinds.interactive.startup import App
from jobs.kinds.serializer import SpecSerializer
from jobs.rules.requests import RoleRequest
from portal.catalog import Catalog, Notebooks, get_catalog
from portal.web.fields import (
    Choice,
    CpuRequest,
    ImageReference,
    Integer,
    MemoryRequest,
    Omissible,
    as_whole,
)

SERVED = Served(
    word="notebook",
    launcher=("start_jupyter", "files"),
    writable=("data", "log"),
    readable=(),
    ready_path="api",
    app_secret="app_token",
    working_dir="/data",
    environment=lambda workload, pods: {"DATA_DIR": "/data", "LOG_DIR": "/log"},
)


class NotebookLifecycle(InteractiveLifecycle):
    app = App("the notebook", "JupyterLab")


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
        return NotebookSpec(name=attrs["name"], image=image, replicas={NOTEBOOK.key: each})


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


NOTEBOOK = served_kind(
    SERVED,
    key="notebook",
    title=_("Notebook"),
    icon="notebook",
    open_verb="open_private",
    stop=StopTexts(
        button=_("Stop notebook"),
        own=CAN_START_AGAIN,
        of_other=_(
            "{person} may be working in it: unsaved changes and everything in the memory of running "
            "kernels are lost. What is on the volumes is kept, and it can be started again."
        ),
    ),
    spec=NotebookSpec,
    serializer=NotebookSerializer,
    lifecycle=NotebookLifecycle,
)
