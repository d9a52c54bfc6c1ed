"""The form of a new training: what only a page has are a command line, rows of variables and an upload.

Its groups show every field of `TrainingSerializer` that has a widget there.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _
from rest_framework import serializers

from jobs.kinds.form import Check, FieldChange, SecretsForm, WorkloadForm, ids_of
from jobs.kinds.spec import WorkloadSpec, spec_of
from jobs.kinds.training import private
from jobs.kinds.training.advice import advice_for
from jobs.kinds.training.commands import body_hints, hints_of_lines, preview_command
from jobs.kinds.training.document import (
    UPLOAD_MISSING,
    as_body,
    as_typed,
    read_document,
    with_stand_ins,
    write_document,
)
from jobs.kinds.training.examples import find_example
from jobs.kinds.training.inputs import (
    BLANK_ROLE,
    GROUPS,
    LABELS,
    LINE_ENDS_LOST,
    MACHINES,
    PARTS,
    PLACES,
    ROLE_INPUTS,
    SOURCE_KINDS,
    SOURCE_NEEDED,
    FormGroup,
    plain_fields,
    texts_of,
    typed_value,
)
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Bundle, Template, Workload
from jobs.node_images import read_lacks
from jobs.pod.protocol import placeholders
from jobs.rules.topologies import (
    OPTIONS,
    ROLES,
    SINGLE,
    TOPOLOGIES,
    Role,
    Topology,
)
from portal.catalog import Image, get_catalog
from portal.errors import FieldError, Refused
from portal.pools import DEFAULT, offered
from portal.web.fields import Duration
from portal.web.forms import AnyField, Input, Problem, blank_texts, inputs_of
from tenants import policy
from tenants.models import Tenant, User


class TrainingForm(SecretsForm):
    """
    Attributes:
        flags: names of the cluster flags that are ticked.
        env: rows of names and values.
        values: `source.commit` is the commit of a training like which this one is to be, and `source.take` whether
            it is taken ("same") or the newest of `source.ref`.
        is_command_blank: whether no command was typed.
        notes: what was not taken as it was typed, in sentences.
    """

    notes: tuple[str, ...] = ()
    serializer = TrainingSerializer
    labels = LABELS
    template = "training/new.html"
    panel = "training/_fit.html"
    form_id = "training"
    stand_in = "training"
    takes_like = False  # one to begin with has an address of its own, `again/`
    has_templates = True

    def __init__(
        self,
        posted: QueryDict | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = (),
        env: tuple[tuple[str, str], ...] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            flags: those that are ticked, where nothing was posted.
            env: the rows, where nothing was posted.
            secrets: see `SecretsForm`.
        """
        super().__init__(posted, shown=shown, secrets=secrets)
        self.flags = list(flags) if posted is None else [f for f in posted.getlist("flags") if f]
        self.env = list(env) if posted is None else _rows(posted)
        # Its ends are kept, too: it may have several lines.
        given: Mapping[str, Any] = posted or shown or {}
        self.values["command"] = given.get("command", "")
        self.is_command_blank = not self.values["command"].strip()

    @classmethod
    def fields_of(cls, posted: QueryDict | None) -> dict[str, AnyField]:
        found = {name.removesuffix("_s"): each for name, each in super().fields_of(posted).items()}
        rows = range(len(_rows(posted)) if posted else 0)
        label = found["env"].label
        return {**found, **{f"env-{row}": serializers.CharField(label=label) for row in rows}}

    @classmethod
    def blank(cls) -> dict[str, str]:
        each = {f"replicas.{role}.{part}": BLANK_ROLE[part] for role in ROLES for part in PARTS}
        none = {f"replicas.{name}.count": "0" for name, role in ROLES.items() if not role.least}
        found = blank_texts(plain_fields())
        source = {"source_kind": "bundle", "source.path": "/data/", "source.take": "newest"}
        return {**found, **each, **none, **source}

    @classmethod
    def of_query(cls, query: QueryDict) -> "TrainingForm":
        """Blank, or a ready example."""
        images = get_catalog().images.offered
        shown = {
            "image": _first_image(images),
            "addresses": get_catalog().addresses,
        }
        example = find_example(query.get("example", ""))
        if example is not None:
            shown |= {"source_kind": "none", **example.values}
        return cls(shown=shown)

    @classmethod
    def of_post(cls, posted: QueryDict) -> WorkloadForm:
        return TrainingYamlForm(posted) if "yaml" in posted else cls(posted)

    @classmethod
    def of_template(cls, template: Template, check: Check) -> WorkloadForm:
        form = cls.of_body(template.spec)
        form.values["template"] = template.name
        form.values["template_team"] = str(template.team_id or "")
        form.read_early(check)
        return form

    @classmethod
    def like(cls, workload: Workload, user: User) -> "TrainingForm":
        spec = spec_of(workload, TrainingSpec)
        if not policy.may(user, "read_values", workload.tenant):
            source = dict(spec.source or {})
            source |= {name: "" for name in ("url", "git") if name in source}
            env = dict.fromkeys(spec.env, "")
            spec = msgspec.structs.replace(spec, source=source, env=env)
        return cls.of_body(as_body(spec), commit=workload.source_commit)

    @classmethod
    def of_body(cls, body: Mapping[str, Any], commit: str = "") -> "TrainingForm":
        """Filled in as a whole body says.

        Args:
            commit: that a training of this body took; "": there is none.
        """
        plain = {name: each for name, each in plain_fields().items() if each.field_name in body}
        shown = {
            name: typed_value(body[str(each.field_name)], each) for name, each in plain.items()
        }
        shown["command"] = typed_value(body["command"])
        left_out = {
            key: {"count": 0} for key in TOPOLOGIES.get(body["topology"], SINGLE).role_names
        }
        for role, asked in {**left_out, **body["replicas"]}.items():
            shown |= {
                f"replicas.{role}.{part}": typed_value(value) for part, value in asked.items()
            }
        source = dict(body["source"] or {})
        shown["source_kind"] = next((kind for kind in SOURCE_KINDS if kind in source), "none")
        if "git" in source:
            source["git_path"] = source.pop("path", "")
            source["commit"] = commit if commit != source.get("ref") else ""
        inputs = [name for name in source if f"source.{name}" in cls.labels]
        shown |= {f"source.{name}": source[name] for name in inputs}
        flags, env = tuple(body["cluster_flags"]), tuple(body["env"].items())
        form = cls(shown=shown, flags=flags, env=env, secrets=body["secrets"])
        texts = [*shown.items(), *env]
        form.problems += [LINE_ENDS_LOST % {"name": n} for n, v in texts if "\r" in str(v)]
        return form

    def typed_body(self, spec: TrainingSpec) -> dict[str, Any]:
        kind, typed = self.values["source_kind"], self.body()
        if kind == "bundle" and not self.values["source.bundle"]:
            typed["source"] = UPLOAD_MISSING
        return as_typed(spec, typed)

    def turned(self, spec: TrainingSpec, _check: Check) -> WorkloadForm:
        return TrainingYamlForm(shown={"yaml": write_document(self.typed_body(spec))})

    # --- the page ---
    @property
    def groups(self) -> list[tuple[FormGroup, list[Input]]]:
        """The sections of the page with what they ask for, in order."""
        inputs = inputs_of(self.fields)
        return [(group, [i for i in inputs if i.widget.group == group.key]) for group in GROUPS]

    def is_open(self, group: FormGroup) -> bool:
        """Whether something in a folded group must be seen."""
        blank = self.blank()
        names = [i.name for i in inputs_of(self.fields) if i.widget.group == group.key]
        return any(
            name in self.errors or self.values[name] != blank.get(name, "") for name in names
        )

    def page_context(self, tenant: Tenant) -> dict[str, Any]:
        ids = ids_of([self.values["source.bundle"]])
        return {
            **super().page_context(tenant),
            "bundle": Bundle.objects.filter(tenant=tenant, pk__in=ids).first() if ids else None,
            "bundle_max_bytes": settings.BUNDLE_MAX_BYTES,
            "flag_names": placeholders.FLAGS,
            "machines": MACHINES,
            "options": OPTIONS,
            "pools": _pool_choices(tenant),
            "topology": self.topology,
            "topologies": tuple(TOPOLOGIES.values()),
            "roles": ROLE_INPUTS,
        }

    def panel_context(self, spec: TrainingSpec | None, tenant: Tenant) -> dict[str, Any]:
        shows = spec is not None and not self.is_command_blank
        return {
            "form": self,
            "preview": preview_command(spec) if spec and shows else None,
            "hints": self.hints(),
            "advice": [*self.notes, *(advice_for(spec, tenant) if spec else [])],
        }

    def hints(self) -> list[str]:
        """What of the commands a shell would treat otherwise, whatever else is wrong with the form."""
        own = [role.name for role in self._roles if not role.program]
        of_roles = [self.values[f"replicas.{name}.command"] for name in own]
        common = [self.values["command"]] if "" in of_roles else []
        return hints_of_lines([*common, *filter(None, of_roles)])

    def changes(self, spec: TrainingSpec, original: Workload, user: User) -> list[FieldChange]:
        asked = spec_of(original, TrainingSpec)
        before = texts_of(private.shown_spec(asked, original.tenant, user))
        after = texts_of(spec)
        if original.source_commit and before.get("source.git") == after.get("source.git"):
            before["source.ref"] = original.source_commit  # what it ran, whatever that was called
        labels = {name: each.label for name, each in TrainingForm.fields_of(None).items()}
        told = {name: labels.get(name, name.removeprefix("env.")) for name in [*before, *after]}
        rows = [FieldChange(str(told[n]), before.get(n, ""), after.get(n, "")) for n in told]
        return [row for row in rows if row.before != row.after]

    # --- the request ---
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            str(each.field_name): self.values[name]
            for name, each in plain_fields().items()
            if self.values[name]
            and not self._lacks_unit(name)
            and self._is_asked(str(each.field_name))
        }
        with suppress(ValueError):
            found["command"] = _words(self.values["command"])
        kind = self.values["source_kind"]
        if self.values.get(f"source.{kind}"):
            parts = {part: self.values[name] for part, name in self._source_inputs(kind).items()}
            found["source"] = {part: text for part, text in parts.items() if text}
        return {
            **found,
            "replicas": {role.name: self._role(role) for role in self._roles},
            "env": dict(self.env),
            "secrets": self.secrets,
            "cluster_flags": self.flags if self._is_asked("cluster_flags") else [],
        }

    def unreadable(self) -> dict[str, str]:
        wrong = {}
        own = (f"replicas.{role.name}.command" for role in self._roles if not role.program)
        for name in ("command", *own):
            try:
                _words(self.values[name])
            except ValueError as error:
                text = _("The command cannot be parsed: %(why)s. Look for a missing quote.")
                wrong[name] = text % {"why": error}
        kind = self.values["source_kind"]
        if kind not in SOURCE_KINDS:
            wrong["source_kind"] = _("Choose where the code comes from.")
        elif kind != "none" and not self.values[f"source.{kind}"]:
            wrong[f"source.{kind}"] = str(SOURCE_NEEDED[kind])
        names = [name for name, _value in self.env]
        for row, name in enumerate(names):
            if name in names[:row]:
                text = _("%(name)s is given twice; keep one.")
                wrong[f"env-{row}"] = text % {"name": name}
        # With a unit: seconds, which REST takes, are not what one thinks of here.
        for name in filter(self._lacks_unit, plain_fields()):
            text = str(Duration.default_error_messages["no_duration"])
            wrong[name] = text.format(given=repr(self.values[name][:40]))
        return wrong

    def place(self, error: FieldError) -> tuple[str, str]:
        name, text = error.field, error.text
        if name.startswith("env."):
            variable = name.removeprefix("env.")
            names = [given[:80] for given, _value in self.env]
            return f"env-{names.index(variable)}" if variable in names else "env", text
        if name == "command" and error.code == "required":
            text = _("Enter a command, for example: python train.py")
        if name.startswith("secrets."):
            return super().place(error)
        if name.startswith("source."):
            of_source = self._source_inputs(self.values["source_kind"])
            name = of_source.get(name.removeprefix("source."), name)
        return PLACES.get(name, name.removesuffix("_s")), text

    def fill_blanks(self) -> None:
        super().fill_blanks()
        if self.is_command_blank:
            self.values["command"] = "true"
        kind = self.values["source_kind"]
        if kind in SOURCE_KINDS and not self.values.get(f"source.{kind}"):
            self.values["source_kind"] = "none"

    @property
    def wants_file(self) -> bool:  # type: ignore[override]  # it is chosen on the page
        return self.values["source_kind"] == "bundle"

    def attach(self, add: Callable[[], Bundle]) -> None:
        try:
            self.values["source.bundle"] = str(add().pk)
        except Refused as refusal:
            self.errors["source.bundle"] = [str(refusal)]

    def _source_inputs(self, kind: str) -> dict[str, str]:
        """What a body has of such a source, and the names of its inputs."""
        if kind == "git":
            takes_same = self.values["source.take"] == "same" and self.values["source.commit"]
            ref = "source.commit" if takes_same else "source.ref"
            named = {"into": "source.into", "secret": "source.secret"}
            return {"git": "source.git", "ref": ref, "path": "source.git_path", **named}
        names = ("url", "sha256") if kind == "url" else (kind,)
        return {name: f"source.{name}" for name in names}

    @property
    def topology(self) -> Topology:
        """The one that is chosen."""
        return TOPOLOGIES.get(self.values["topology"], SINGLE)

    def _is_asked(self, name: str) -> bool:
        """Whether the topology has this field, and the catalog does not answer it in the same way."""
        if name == "addresses":
            return self.values[name] != get_catalog().addresses
        return name not in OPTIONS or name in self.topology.options

    @property
    def _roles(self) -> list[Role]:
        """Those of it that are not left out."""
        return [
            role
            for role in self.topology.roles
            if role.least or self.values[f"replicas.{role.name}.count"] != "0"
        ]

    def _role(self, role: Role) -> dict[str, Any]:
        texts = {part: self.values[f"replicas.{role.name}.{part}"] for part in PARTS}
        asked: dict[str, Any] = {
            part: text for part, text in texts.items() if text or BLANK_ROLE[part]
        }
        command = asked.pop("command", "")
        # Both may have been typed for another topology.
        if command and not role.program:
            with suppress(ValueError):
                asked["command"] = _words(command)
        if not role.may_shrink:
            asked.pop("min", "")
        return {**asked, "count": "1"} if role.least == role.most == 1 else asked

    def _lacks_unit(self, name: str) -> bool:
        is_number = re.fullmatch(r"[-\d.]+", self.values[name])
        return isinstance(self.fields[name], Duration) and is_number is not None


def _first_image(offered: Sequence[Image]) -> str:
    """The first that can start here, if there is one; "": none is offered."""
    images = [image.reference for image in offered]
    lacks = read_lacks(images)
    return next((image for image in images if image not in lacks), next(iter(images), ""))


def _pool_choices(tenant: Tenant) -> list[tuple[str, str]]:
    """Pools that the team may use with their titles; nothing where there is only one."""
    known = get_catalog().pools
    names = offered(known, tenant.team.name if tenant.team else None)
    titles = {DEFAULT: _("other nodes"), **{pool.name: pool.shown_name for pool in known}}
    return [(name, titles[name]) for name in names] if len(names) > 1 else []


class TrainingYamlForm(TrainingForm):
    """The other tab: the same as one YAML document.

    Attributes:
        document: what was read of it.
    """

    view = "yaml"
    wants_file = False

    def __init__(
        self, posted: QueryDict | None = None, *, shown: Mapping[str, str] | None = None
    ) -> None:
        WorkloadForm.__init__(self, posted, shown=shown)
        given: Mapping[str, Any] = posted or shown or {}
        self.values["yaml"] = given.get("yaml", "")  # with its beginning: it may be indented
        self.document, self._is_early = read_document(self.values["yaml"]), False
        self.notes = self.document.notes
        self.is_command_blank = not self.document.body.get("command")

    @classmethod
    def fields_of(cls, _posted: QueryDict | None) -> dict[str, AnyField]:
        labels = {name: cls.labels[name] for name in ("template", "template_team")} | {
            "yaml": "YAML"
        }
        return {name: serializers.CharField(label=label) for name, label in labels.items()}

    def body(self) -> dict[str, Any]:
        body = self.document.body
        return with_stand_ins(body) if self._is_early else body

    def fill_blanks(self) -> None:
        self._is_early = True

    def read(self, check: Check) -> WorkloadSpec | None:
        self._add_errors(())
        if not self.document.is_readable:
            return None
        # Errors of the rest are reported as well.
        spec = self.attempt(lambda: check(self.body(), self.document.written))
        return None if self.is_wrong else spec

    def take(self, errors: Iterable[FieldError]) -> None:
        self._add_errors(errors)

    def _add_errors(self, errors: Iterable[FieldError]) -> None:
        """Shows these and the document's own beside the text."""
        if found := self.document.find_errors(errors):
            self.errors["yaml"] = [self.place(error)[1] for error in found]

    def place(self, error: FieldError) -> tuple[str, str]:
        is_said = error.line is not None or not error.field
        return "yaml", error.text if is_said else f"{error.field}: {error.text}"

    @property
    def told(self) -> list[Problem]:
        rest = [problem for problem in super().told if problem.field != "yaml"]
        return [Problem("yaml", "", text) for text in self.errors.get("yaml", [])] + rest

    def page_context(self, tenant: Tenant) -> dict[str, Any]:
        return {}

    def hints(self) -> list[str]:
        return body_hints(self.document.body)

    def turned(self, spec: TrainingSpec, check: Check) -> WorkloadForm:
        form = TrainingForm.of_body(self.typed_body(spec))
        if form.read_early(check) == spec:
            return form
        self.problems = [_("The form has no place for all of this. Edit it here.")]
        return self

    def typed_body(self, spec: TrainingSpec) -> dict[str, Any]:
        return as_typed(spec, self.document.body)


def _words(text: str) -> list[str]:
    """Words of a command line.

    Raises:
        ValueError: a quote is missing.
    """
    # A backslash at the end of a line continues it, as in a shell.
    return shlex.split(re.sub(r"\\\r?\n", " ", text).replace("\r\n", "\n"))


def _rows(posted: QueryDict) -> list[tuple[str, str]]:
    pairs = zip(posted.getlist("env_name"), posted.getlist("env_value"), strict=False)
    # Browsers send each end of a line as CR and LF, whatever was shown.
    rows = [(name.strip(), value.replace("\r\n", "\n")) for name, value in pairs]
    return [(name, value) for name, value in rows if name or value]
