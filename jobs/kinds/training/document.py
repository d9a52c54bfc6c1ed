"""A training as a YAML document: its body without what is the default anyway, written, and read strictly.

Anchors, tags and repeated keys are refused: a document is as long as what it says, and says it once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml
from django.utils.translation import gettext as _
from rest_framework.fields import empty

from jobs.kinds.training.continuing import takes_over
from jobs.kinds.training.fields import ResourcesSerializer
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.rules.topologies import SINGLE, TOPOLOGIES
from portal.cluster import yaml_text
from portal.errors import Refused
from portal.web.forms import AnyField

MAX_BYTES = 64 * 1024
_MAX_DEPTH = 16  # a body has four, and other systems' files up to twelve
_MAX_NUMBER_CHARS = 40
# What YAML 1.1 has in common with JSON; the rest, such as dates, is meant as the text that it is.
_JSON_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_RESOLVER: Any = yaml.resolver.Resolver()
# What a body must have -> as it is while nothing is typed yet, and what stands in for it then.
_BLANKS: Mapping[str, Any] = {"name": "", "command": []}
_STAND_INS: Mapping[str, Any] = {"name": "training", "command": ["true"]}
UPLOAD_MISSING: Mapping[str, str] = {"bundle": ""}  # the code is an upload that is still to be made


@dataclass(frozen=True)
class Document:
    """
    Attributes:
        lines: dotted path of each value -> its line, from 1.
    """

    body: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def find_line(self, path: str) -> int | None:
        """The line of a field, or of what it stands in; None: neither is written."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines[path] if path else None


def read_document(text: str) -> Document:
    """
    Raises:
        Refused: it is too long, no YAML, or has what no body needs; the text says the line.
    """
    given = text.encode(errors="replace")
    if len(given) > MAX_BYTES:
        raise Refused(_("The document is too long: at most 64 KiB."), "too_large")
    composer = _Composer(given.decode())
    try:
        body = composer.document()
    except yaml.MarkedYAMLError as error:
        # What is never closed is noticed below the last line; the other mark says where it began.
        lines = [mark.line for mark in (error.problem_mark, error.context_mark) if mark]
        line = next(filter(composer.text_of, lines), 0)
        composer.refuse(line, _("this is not YAML: %s.") % error.problem)
    except yaml.reader.ReaderError as error:
        line = given[: error.position].count(b"\n")
        composer.refuse(line, _("this is not YAML: %s.") % error.reason)
    if not isinstance(body, dict):
        composer.refuse(0, _("write fields such as name, image and command, each with a colon."))
    return Document(body, composer.lines)


class _Composer:
    """Makes values of YAML's events, of which libyaml gives one at a time."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self._text_lines = text.splitlines()
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)

    def text_of(self, line: int) -> str:
        """The beginning of a line, from 0."""
        return self._text_lines[line].strip()[:60] if line < len(self._text_lines) else ""

    def refuse(self, line: int, text: str) -> NoReturn:
        """
        Args:
            line: from 0.
        """
        words = {"line": line + 1, "shown": self.text_of(line), "text": text}
        raise Refused(_("Line %(line)s (“%(shown)s”): %(text)s") % words, "invalid")

    def _refuse(self, event: Any, text: str) -> NoReturn:
        self.refuse(event.start_mark.line, text)

    def document(self) -> Any:
        """The value of the only document; of none an object without fields."""
        found: Any = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    self._refuse(event, _("there may be one document only."))
                found = self._value(next(self._events), ())
        return {} if found is None else found

    def _value(self, event: Any, path: tuple[str, ...]) -> Any:
        self._check(event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if len(path) == _MAX_DEPTH:
            self._refuse(event, _("this is nested too deeply."))
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.append(self._place(inner, (*path, str(len(items))), inner))
            return items
        found: dict[str, Any] = {}
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            self._check(inner)
            if not isinstance(inner, yaml.ScalarEvent):
                self._refuse(inner, _("a field's name must be text."))
            key = inner.value
            if key in found:
                self._refuse(inner, _("%(name)s is given twice; keep one.") % {"name": key[:80]})
            found[key] = self._place(next(self._events), (*path, key), inner)
        return found

    def _place(self, event: Any, path: tuple[str, ...], first: Any) -> Any:
        self.lines[".".join(path)] = first.start_mark.line + 1
        return self._value(event, path)

    def _check(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse(event, _("write the value out instead of using & and *."))
        if event.tag is not None:
            self._refuse(event, _("tags (!) are not taken."))


def _scalar(event: yaml.ScalarEvent) -> Any:
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag not in _JSON_TAGS or len(event.value) > _MAX_NUMBER_CHARS:
        return event.value
    try:
        return yaml.constructor.SafeConstructor().construct_object(
            yaml.ScalarNode(tag, event.value)
        )
    except ValueError:  # "0b_" looks like a number to YAML 1.1, and is none
        return event.value


def write_document(body: Mapping[str, Any]) -> str:
    """A whole body as `as_body` makes it, in YAML, without what is the default anyway."""
    found = _differing(body, TrainingSerializer().fields)
    fields = ResourcesSerializer().fields
    roles = {role: _differing(asked, fields) for role, asked in body["replicas"].items()}
    topology = TOPOLOGIES.get(body["topology"], SINGLE)
    needed = {role.name for role in topology.roles if role.least}
    found["replicas"] = roles
    if roles.keys() == needed and not any(roles.values()):
        del found["replicas"]
    return yaml_text.dump([found])


def _differing(values: Mapping[str, Any], fields: Mapping[str, AnyField]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not _is_default(value, fields[name])}


def _is_default(value: Any, of: AnyField) -> bool:
    default = None if of.default is empty else of.to_representation(of.get_default())
    return not of.required and value in (default, None, {}, [])


def as_body(spec: TrainingSpec) -> dict[str, Any]:
    """The body that asks for it, with every field."""
    return TrainingSerializer().to_representation(spec)


def with_stand_ins(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body that can be read early: with something harmless where nothing is typed yet."""
    found = {**body, **{name: _STAND_INS[name] for name in _missing(body)}}
    if found.get("source") == UPLOAD_MISSING:
        del found["source"]
    return found


def _missing(body: Mapping[str, Any]) -> list[str]:
    """What is still to be typed, where the training that it continues has not all of it."""
    return [] if takes_over(body) else [name for name in _BLANKS if not body.get(name)]


def as_typed(spec: TrainingSpec, typed: Mapping[str, Any]) -> dict[str, Any]:
    """The whole body of what was read `with_stand_ins`, without them.

    Args:
        typed: the body before.
    """
    blanks = {name: _BLANKS[name] for name in _missing(typed)}
    if typed.get("source") == UPLOAD_MISSING:
        blanks["source"] = UPLOAD_MISSING
    return {**as_body(spec), **blanks}
