"""The form of a new training: what was typed, the REST body that it means, and errors at its fields.

The rules themselves are those of REST (`TrainingSerializer`); here is only what a form adds: a
command line instead of a list of words, rows of variables. What was typed is kept as it was
typed, so nothing is lost when the page comes back with errors.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext as _

from jobs import command_line
from jobs.form_labels import label_of
from jobs.kinds.spec import spec_of
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Bundle, Workload
from jobs.rules.topologies import TOPOLOGIES
from jobs.workloads.examples import Example
from portal import quantity
from portal.catalog import get_catalog
from portal.errors import FieldError, Refused
from portal.web.fields import Duration
from portal.web.forms import Problem
from tenants import policy
from tenants.models import Tenant, User

DEFAULTS: Mapping[str, str] = {
    "name": "",
    "source_kind": "bundle",
    "source.bundle": "",
    "source.url": "",
    "source.sha256": "",
    "source.path": "/data/",
    "command": "",
    "topology": "single",
    "image": "",
    "replicas.worker.count": "1",
    "replicas.worker.cpu": "1",
    "replicas.worker.memory": "2Gi",
    "replicas.worker.gpu": "0",
    "replicas.ps.count": "1",
    "replicas.ps.cpu": "1",
    "replicas.ps.memory": "2Gi",
    "replicas.ps.gpu": "0",
    "retries": "0",
    "deadline": "",
    "starting_deadline": "5min",
    "success_policy": "",
    "clean_policy": "running",
    "ttl": "1d",
    "shm": "",
}
SOURCE_KINDS = ("bundle", "url", "path", "none")

# Fields of the form are named as those of the REST body, except these.
_FIELDS = {
    "source": "source_kind",
    "replicas": "replicas.worker.count",
    "replicas.worker": "replicas.worker.count",
    "replicas.ps": "replicas.ps.count",
    "deadline_s": "deadline",
    "starting_deadline_s": "starting_deadline",
    "ttl_s": "ttl",
}
# Fields in the section "More options", which must be open when one of them is wrong.
MORE_FIELDS = frozenset(
    {
        "retries",
        "deadline",
        "starting_deadline",
        "success_policy",
        "clean_policy",
        "ttl",
        "shm",
        "priority",
    }
)


@dataclass
class TrainingForm:
    """One filled-in form."""

    values: dict[str, str]
    flags: list[str] = field(default_factory=list)
    env: list[tuple[str, str]] = field(default_factory=list)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def error_at(self, name: str, text: str) -> None:
        self.errors.setdefault(name, []).append(text)

    @property
    def problems(self) -> list[Problem]:
        """All errors in the order in which they were found."""
        return [
            Problem(name, label_of(name), " ".join(texts)) for name, texts in self.errors.items()
        ]

    @property
    def roles(self) -> tuple[str, ...]:
        topology = TOPOLOGIES.get(self.values["topology"])
        return topology.role_names if topology else ("worker",)

    @property
    def is_more_open(self) -> bool:
        """Whether "More options" has something that must be seen."""
        changed = any(
            self.values[name] != DEFAULTS.get(name) for name in MORE_FIELDS - {"priority"}
        )
        return changed or not MORE_FIELDS.isdisjoint(self.errors)

    def body(self) -> dict[str, Any]:
        """The REST body; what cannot be read is noted in `errors` and left out."""
        values = self.values
        return {
            "name": values["name"].strip(),
            "topology": values["topology"],
            "image": values["image"].strip(),
            "command": self._command(),
            "source": self._source(),
            "replicas": {role: self._role(role) for role in self.roles},
            "env": self._env(),
            "cluster_flags": self.flags,
            "success_policy": values["success_policy"] or None,
            "retries": values["retries"].strip(),
            "deadline_s": self._duration("deadline"),
            "starting_deadline_s": self._duration("starting_deadline"),
            "clean_policy": values["clean_policy"],
            "ttl_s": self._duration("ttl"),
            "shm": values["shm"].strip() or None,
        }

    def _command(self) -> list[str]:
        # A backslash at the end of a line continues it, as in a shell.
        text = re.sub(r"\\\r?\n", " ", self.values["command"])
        try:
            return shlex.split(text.replace("\r\n", "\n"))
        except ValueError as error:
            self.error_at(
                "command",
                _("The command cannot be parsed: %(why)s. Look for a missing quote.")
                % {"why": error},
            )
            return []

    def _source(self) -> dict[str, str] | None:
        kind = self.values["source_kind"]
        if kind == "none":
            return None
        if kind not in SOURCE_KINDS:
            self.error_at("source_kind", _("Choose where the code comes from."))
            return None
        given = self.values[f"source.{kind}"].strip()
        if not given:
            self.error_at(f"source.{kind}", _SOURCE_NEEDED[kind]())
            return None
        source = {kind: given}
        if kind == "url" and self.values["source.sha256"].strip():
            source["sha256"] = self.values["source.sha256"].strip()
        return source

    def _role(self, role: str) -> dict[str, str]:
        asked = {
            part: self.values[f"replicas.{role}.{part}"].strip()
            for part in ("count", "cpu", "memory", "gpu")
        }
        if self.values["topology"] == "single":
            asked["count"] = "1"
        return asked

    def _env(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for index, (name, value) in enumerate(self.env):
            if name in pairs:
                self.error_at(
                    f"env-{index}", _("%(name)s is given twice; keep one.") % {"name": name}
                )
            pairs[name] = value
        return pairs

    def _duration(self, name: str) -> str | None:
        """With a unit: seconds, which REST takes, are not what one thinks of here."""
        text = self.values[name].strip()
        if re.fullmatch(r"[-\d.]+", text):
            problem = Duration.default_error_messages["no_duration"]
            self.error_at(name, problem.format(given=repr(text[:40])))
            return None
        return text or None

    def read(self, tenant: Tenant, user: User) -> TrainingSpec | None:
        """The checked request, or None with the errors in the form."""
        body = self.body()
        try:
            wanted = TRAINING.read(body, tenant=tenant, user=user)
        except Refused as refusal:
            self.take_errors(refusal.errors)
            return None
        assert isinstance(wanted, TrainingSpec)
        return None if self.errors else wanted

    def bundle(self, bundles: QuerySet[Bundle]) -> Bundle | None:
        """The upload that is named, if it is there, so that the page can show it."""
        try:
            identity = UUID(self.values["source.bundle"])
        except ValueError:
            return None
        return bundles.filter(pk=identity).first()

    @property
    def is_command_blank(self) -> bool:
        return not self.values["command"].strip()

    def with_fallbacks(self) -> "TrainingForm":
        """The same with something harmless where nothing is typed yet, to tell early what fits."""
        values = dict(self.values)
        values["name"] = values["name"].strip() or "training"
        if self.is_command_blank:
            values["command"] = "true"
        kind = values["source_kind"]
        if kind in SOURCE_KINDS and not values.get(f"source.{kind}", "").strip():
            values["source_kind"] = "none"
        return TrainingForm(values, list(self.flags), list(self.env))

    def take_errors(self, errors: Iterable[FieldError]) -> None:
        """Errors of the REST rules, put at the fields of this form."""
        for error in errors:
            self._take_error(error)

    def _take_error(self, error: FieldError) -> None:
        name, text = error.field, error.text
        if name.startswith("env."):
            variable = name.removeprefix("env.")
            names = [given[:80] for given, _value in self.env]
            name = f"env-{names.index(variable)}" if variable in names else "env"
        elif name == "command" and error.code == "required":
            text = _("Enter a command, for example: python train.py")
        name = _FIELDS.get(name, name)
        # What the form itself could not read is already said there, and better.
        if name not in self.errors or name.startswith("env"):
            self.error_at(name, text)


_SOURCE_NEEDED = {
    "bundle": lambda: _("Choose an archive or a script, or another source of the code."),
    "url": lambda: _("Enter the URL of the script or archive."),
    "path": lambda: _("Enter the folder on the data volume, for example /data/src."),
}


def blank_form(example: Example | None = None) -> TrainingForm:
    """An empty form, or a ready example."""
    values = dict(DEFAULTS)
    images = get_catalog().images.offered
    values["image"] = images[0].reference if images else ""
    if example is not None:
        values.update({"source_kind": "none", **example.values})
    return TrainingForm(values)


def posted_form(data: QueryDict) -> TrainingForm:
    """The form as it was sent; fields that are missing have their defaults."""
    values = {name: data.get(name) or "" for name in DEFAULTS if name in data}
    pairs = zip(data.getlist("env_name"), data.getlist("env_value"), strict=False)
    return TrainingForm(
        values={**DEFAULTS, **values},
        flags=[flag for flag in data.getlist("flags") if flag],
        env=[(name.strip(), value) for name, value in pairs if name.strip() or value],
    )


def form_of_job(job: Workload, user: User) -> TrainingForm:
    """The form that would ask for the same training again, without what the user may not read."""
    values = dict(DEFAULTS)
    spec = spec_of(job, TrainingSpec)
    run = spec.run_policy
    values.update(
        name=spec.name,
        topology=spec.topology,
        image=spec.image,
        command=command_line.join(spec.command),
        retries=str(run.retries),
        deadline=quantity.duration_text(run.deadline_s) if run.deadline_s else "",
        starting_deadline=quantity.duration_text(run.starting_deadline_s),
        success_policy=run.success_policy or "",
        clean_policy=run.clean_policy,
        ttl=quantity.duration_text(run.ttl_s),
        shm=quantity.memory_text(spec.shm_bytes) if spec.shm_bytes else "",
    )
    for role, asked in spec.replicas.items():
        values[f"replicas.{role}.count"] = str(asked.count)
        values[f"replicas.{role}.cpu"] = quantity.cpu_text(asked.cpu_millicores)
        values[f"replicas.{role}.memory"] = quantity.memory_text(asked.memory_bytes)
        values[f"replicas.{role}.gpu"] = str(asked.gpu_count)
    source = dict(spec.source or {})
    may_read = policy.may(user, "read_values", job.tenant)
    if "url" in source and not may_read:
        source["url"] = ""
    values["source_kind"] = next((kind for kind in SOURCE_KINDS if kind in source), "none")
    shown = ("url", "sha256") if "url" in source else ("bundle", "path")
    values.update({f"source.{name}": source[name] for name in shown if name in source})
    env = [(name, value if may_read else "") for name, value in spec.env.items()]
    return TrainingForm(values, list(spec.cluster_flags), env)
