"""What the fields of the training form are called, for the list of errors above it."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_LABELS = {
    "name": gettext_lazy("Name"),
    "source_kind": gettext_lazy("Code"),
    "source.bundle": gettext_lazy("Code"),
    "source.url": gettext_lazy("URL"),
    "source.sha256": gettext_lazy("SHA-256"),
    "source.path": gettext_lazy("Folder on the data volume"),
    "command": gettext_lazy("Command"),
    "cluster_flags": gettext_lazy("Cluster flags"),
    "image": gettext_lazy("Image"),
    "topology": gettext_lazy("Topology"),
    "retries": gettext_lazy("Retries"),
    "deadline": gettext_lazy("Time limit"),
    "starting_deadline": gettext_lazy("Start timeout"),
    "success_policy": gettext_lazy("Success condition"),
    "clean_policy": gettext_lazy("Pod cleanup"),
    "ttl": gettext_lazy("Keep finished pods for"),
    "shm": gettext_lazy("Shared memory"),
}
_ROLES = {"worker": gettext_lazy("Workers"), "ps": gettext_lazy("Parameter servers")}
_PARTS = {
    "count": gettext_lazy("count"),
    "cpu": gettext_lazy("CPU"),
    "memory": gettext_lazy("memory"),
    "gpu": gettext_lazy("GPU"),
}


def label_of(name: str) -> str:
    """The label of a field; empty for an error that is about no field of the form."""
    if name.startswith("env"):
        return _("Environment variables")
    if name.startswith("replicas."):
        _replicas, role, part = f"{name}.count".split(".")[:3]
        return f"{_ROLES.get(role, role)}, {_PARTS.get(part, part)}"
    return str(_LABELS.get(name, ""))
