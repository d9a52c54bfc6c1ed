"""What the page of a new training asks for: inputs with their labels and sections, and what is typed there.

Names of inputs are those of a body's fields, without the unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework.fields import empty

from jobs import command_line
from jobs.kinds.training import private
from jobs.kinds.training.document import as_body
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.rules.topologies import OPTIONS, ROLES, TOPOLOGIES, Role, in_role_order
from portal import quantity
from portal.web.fields import Duration
from portal.web.forms import AnyField, inputs_of, shown_text

SOURCE_KINDS = ("bundle", "git", "url", "path", "none")
PARTS = {
    "count": gettext_lazy("count"),
    "cpu": gettext_lazy("CPU"),
    "memory": gettext_lazy("memory"),
    "gpu": gettext_lazy("GPU"),
    "command": gettext_lazy("command"),
    "image": gettext_lazy("image"),
    "min": gettext_lazy("fewest"),
    "pool": gettext_lazy("pool"),
}
# Of a blank form; what is blank there says nothing of the role.
BLANK_ROLE = {
    "count": "1",
    "cpu": "1",
    "memory": "2Gi",
    "gpu": "0",
    "command": "",
    "image": "",
    "min": "",
    "pool": "",
}
# What parts of a body have no input of their name are told at these.
PLACES = {
    "source": "source_kind",
    "replicas": "replicas.worker.count",
    **{f"replicas.{role}": f"replicas.{role}.count" for role in ROLES},
}


_COMPOSED = frozenset({"command", "source", "replicas", "env", "secrets", "cluster_flags"})
SOURCE_NEEDED = {
    "bundle": gettext_lazy("Choose an archive or a script, or another source of the code."),
    "git": gettext_lazy("Enter the address of the repository, for example https://host/repo.git."),
    "url": gettext_lazy("Enter the URL of the script or archive."),
    "path": gettext_lazy("Enter the folder on the data volume, for example /data/src."),
}
# Of a value that came by REST or a document; nobody types one.
LINE_ENDS_LOST = gettext_lazy(
    "%(name)s: its lines end with a carriage return (\\r), which no form in a browser can keep; from here "
    "they end without. homeport submit -f and REST keep it."
)


LABELS: Mapping[str, Any] = {
    "source_kind": gettext_lazy("Code"),
    "source.bundle": gettext_lazy("Code"),
    "source.git": gettext_lazy("Repository"),
    "source.ref": gettext_lazy("Branch, tag or commit"),
    "source.git_path": gettext_lazy("Folder in the repository"),
    "source.into": gettext_lazy("Folder in /workspace"),
    "source.secret": gettext_lazy("Secret"),
    "source.take": gettext_lazy("Revision"),
    "source.commit": gettext_lazy("Commit"),
    "source.url": gettext_lazy("URL"),
    "source.sha256": gettext_lazy("SHA-256"),
    "source.path": gettext_lazy("Folder on the data volume"),
    "template": gettext_lazy("Template name"),
    "template_team": gettext_lazy("Owner of the template"),
    **{
        f"replicas.{name}.{part}": format_lazy("{}, {}", gettext_lazy(role.title_of()), label)
        for name, role in ROLES.items()
        for part, label in PARTS.items()
    },
}


@dataclass(frozen=True)
class FormGroup:
    """A section of the page.

    Attributes:
        lead: a few words beside the title of one that is folded; "": it never is.
    """

    key: str
    title: str | Promise
    lead: str | Promise = ""


GROUPS = (
    FormGroup("what", gettext_lazy("Program")),
    FormGroup("how", gettext_lazy("Execution")),
    FormGroup("where", gettext_lazy("Replicas and resources")),
    FormGroup("more", gettext_lazy("More options"), gettext_lazy("retries, time limits, cleanup")),
)


# Key and title of each card, what it is for, and the topologies that it opens.
MACHINES = (
    (
        "one",
        gettext_lazy("One machine"),
        gettext_lazy("One program on one node, with as many of its GPUs as it needs."),
        tuple(shape for shape in TOPOLOGIES.values() if shape.is_one_machine),
    ),
    (
        "several",
        gettext_lazy("Several machines"),
        gettext_lazy("Replicas that work together, on one node or on many."),
        tuple(shape for shape in TOPOLOGIES.values() if not shape.is_one_machine),
    ),
)


@dataclass(frozen=True)
class RoleInput:
    """A role on the page.

    Attributes:
        many, one: names of the topologies in which it may have several replicas, and at most one.
        shrinks: those in which it may go on with fewer than all.
        commands: those in which it runs a command.
    """

    role: Role
    many: tuple[str, ...]
    one: tuple[str, ...]
    shrinks: tuple[str, ...]
    commands: tuple[str, ...]


def _role_input(role: Role) -> RoleInput:
    found = [(shape.name, own) for shape in TOPOLOGIES.values() for own in shape.roles]
    same = [(name, own) for name, own in found if own.name == role.name]
    return RoleInput(
        role,
        many=tuple(name for name, own in same if own.most != 1),
        one=tuple(name for name, own in same if own.most == 1),
        shrinks=tuple(name for name, own in same if own.may_shrink),
        commands=tuple(name for name, own in same if not own.program),
    )


ROLE_INPUTS = tuple(_role_input(role) for role in in_role_order(ROLES).values())


@cache
def plain_fields() -> dict[str, AnyField]:
    """Those of which the page has one text, as the body has it."""
    return {
        name.removesuffix("_s"): each
        for name, each in TrainingSerializer().fields.items()
        if "widget" in each.style and name not in _COMPOSED
    }


def typed_value(value: Any, of: AnyField | None = None) -> str:
    """What a person would type for a value of a body.

    Args:
        of: its field, where that has a notation of its own.
    """
    if value is None:
        return ""
    if isinstance(of, Duration):
        return quantity.duration_text(value)
    return command_line.join(value) if isinstance(value, list) else str(value)


def texts_of(spec: TrainingSpec) -> dict[str, str]:
    """Names of the form's inputs -> what a person reads there, of all that is asked for."""
    body, source = as_body(spec), dict(spec.source or {})
    found = {
        "command": typed_value(body["command"]),
        "cluster_flags": typed_value(body["cluster_flags"]),
    }
    for name, each in plain_fields().items():
        value = attrgetter(str(each.source))(spec)
        found[name] = "" if value is None else shown_text(each, value)
    for role, asked in body["replicas"].items():
        found |= {f"replicas.{role}.{part}": typed_value(value) for part, value in asked.items()}
    if "git" in source:
        source["git_path"] = source.pop("path", "")
        source.setdefault("ref", _("default branch"))
    if "bundle" in source:
        source = {"bundle": f"{source['file_name']} (sha256 {source['sha256'][:12]}…)"}
    found |= {f"source.{part}": text for part, text in source.items()}
    values = {name: private.HIDDEN if v is None else v for name, v in body["env"].items()}
    found["secrets"] = ", ".join(f"{name} ({use})" for name, use in body["secrets"].items())
    return found | {f"env.{name}": value for name, value in values.items()}


def changed_options(spec: TrainingSpec) -> list[tuple[str, str]]:
    """Label and value of each option that is not what every training has."""
    fields = plain_fields()
    found = []
    for one in inputs_of(fields):
        each = fields[one.name]
        value = attrgetter(str(each.source))(spec)
        default = None if each.default is empty else each.default
        is_shown = one.widget.group == GROUPS[-1].key or one.name in OPTIONS
        if is_shown and value != default:
            found.append((str(one.label), shown_text(each, value)))
    return found
