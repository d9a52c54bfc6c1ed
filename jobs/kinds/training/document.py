"""A training as a YAML document: its body without what is the default anyway, written, and read strictly.

Anchors, tags and repeated keys are refused: a document is as long as what it says, and says it once. This is the one
reader of such texts, whether they come from the page, from `homeport submit -f` or from somebody's own client.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import yaml
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework.fields import empty

from jobs.kinds.training.answers import OneJobSerializer
from jobs.kinds.training.continuing import takes_over
from jobs.kinds.training.fields import ResourcesSerializer
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.rules.topologies import SINGLE, TOPOLOGIES
from portal.cluster import yaml_text
from portal.errors import FieldError
from portal.web.forms import AnyField

MAX_BYTES = 64 * 1024  # of what people type
# Of a file: `homeport get -o yaml` of an array of 1,000 workers has 400 KiB. The reading takes 1 s a MiB.
MAX_FILE_BYTES = 512 * 1024
MOST_SHOWN_ERRORS = 5
_MOST_PROBLEMS = 60  # that are kept of a text
_MAX_DEPTH = 16  # a body has four, and other systems' files up to twelve
# Of the paths of all values together, each with what a row costs: one long name stands in the paths of all that is in
# it, however short its text. The answer for an array of 1,000 workers has 3 MB.
_MAX_PATH_CHARS = 8 * 2**20
_ROW_CHARS = 100
_MAX_NUMBER_CHARS = 40
# What YAML 1.1 has in common with JSON; the rest, such as dates, is meant as the text that it is.
_JSON_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
_OCTAL = re.compile(r"[-+]?0[0_]*[1-7][0-7_]+")
_MISREAD = gettext_lazy("YAML takes %(written)s for %(value)s; write that, or the text in quotes.")
_RESOLVER: Any = yaml.resolver.Resolver()
# What a body must have -> as it is while nothing is typed yet, and what stands in for it then.
_BLANKS: Mapping[str, Any] = {"name": "", "command": []}
_STAND_INS: Mapping[str, Any] = {"name": "training", "command": ["true"]}
UPLOAD_MISSING: Mapping[str, str] = {"bundle": ""}  # the code is an upload that is still to be made
_RENAMED = {"resources": "replicas"}  # a field of REST's answer -> the same of a body
T = TypeVar("T")
_EVENTS = "events"  # which `homeport get --events` adds to REST's answer


@dataclass(frozen=True)
class DocumentProblem:
    """What no document may have.

    Attributes:
        line: from 1.
        field: dotted path; "": it is about the text as such.
        shown: the beginning of the line.
    """

    line: int
    field: str
    text: str
    shown: str


@dataclass(frozen=True)
class Document:
    """
    Attributes:
        lines: dotted path of each value -> its line, from 1.
        written: dotted path -> how a value that is no text is written.
        problems: what no document may have; the body is without it.
        is_readable: whether it was read to its end.
        notes: what was not taken as it is written, in sentences.
        is_answer: whether it is REST's answer, as `homeport get` writes it, which calls replicas "resources".
    """

    body: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[DocumentProblem, ...] = ()
    is_readable: bool = True
    notes: tuple[str, ...] = ()
    is_answer: bool = False

    def find_line(self, path: str) -> int | None:
        """The line of a field, or of what it stands in; None: neither is written."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return self.lines[path] if path else None

    def find_errors(
        self, errors: Iterable[FieldError] = (), elsewhere: Iterable[str] = ()
    ) -> list[FieldError]:
        """All errors, those with a line first and in order of lines; five, and how many more there are.

        Args:
            errors: found by the rules of a body.
            elsewhere: paths of fields whose value something else gives, such as an option.
        """
        own = [self._of_document(problem) for problem in self.problems]
        known = [problem.field for problem in self.problems if problem.field]
        others = [
            self._of_body(error, tuple(elsewhere))
            for error in errors
            if not any(is_within(error.field, path) for path in known)
        ]
        if "kind" in self.body:  # another system's file: all errors, and first that it is one
            return own + others
        found = sorted(own + others, key=lambda error: error.line or len(self.lines) + 10**6)
        if len(found) <= MOST_SHOWN_ERRORS:
            return found
        more = _("%(count)s more are not shown.") % {"count": len(found) - MOST_SHOWN_ERRORS}
        return [*found[:MOST_SHOWN_ERRORS], FieldError("", "more", more)]

    def _of_document(self, problem: DocumentProblem) -> FieldError:
        words = {"line": problem.line, "shown": problem.shown, "text": problem.text}
        text = _("Line %(line)s (“%(shown)s”): %(text)s") % words
        return FieldError(self._name(problem.field), "invalid", text, problem.line)

    def _of_body(self, error: FieldError, elsewhere: tuple[str, ...]) -> FieldError:
        is_elsewhere = any(is_within(error.field, path) for path in elsewhere)
        line = None if is_elsewhere else self.find_line(error.field)
        if line is None:
            return error
        name = self._name(error.field)
        hidden = _("Its owner alone sees this value; write it out.")
        text = hidden if self._is_hidden(error.field) else error.text
        words = {"line": line, "field": name, "text": text}
        text = _("Line %(line)s, %(field)s: %(text)s") % words
        return FieldError(name, error.code, text, line)

    def _is_hidden(self, path: str) -> bool:
        """Whether it is a variable of an answer to somebody who may not read its value."""
        first, _dot, variable = path.partition(".")
        env = self.body.get("env") if self.is_answer and first == "env" else None
        return isinstance(env, dict) and env.get(variable, "") is None

    def _name(self, path: str) -> str:
        """A path as the document has it."""
        is_renamed = self.is_answer and is_within(path, "replicas")
        return f"resources{path.removeprefix('replicas')}" if is_renamed else path


def is_within(path: str, outer: str) -> bool:
    """Whether a field is another, or stands in it."""
    return path == outer or path.startswith(f"{outer}.")


def read_document(text: str, most_bytes: int = MAX_BYTES) -> Document:
    """What a text says, with everything that no document may have.

    Args:
        most_bytes: how long it may be.
    """
    given = text.encode(errors="replace")
    if len(given) > most_bytes:
        text_of_problem = _("The document is too long: at most %(most)s KiB.") % {
            "most": most_bytes // 1024
        }
        return Document(
            problems=(DocumentProblem(1, "", text_of_problem, text[:60]),), is_readable=False
        )
    composer = _Composer(given.decode())
    body: Any = None
    try:
        body = composer.document()
        if isinstance(body, dict) and "kind" not in body:  # another system reads its own so
            for problem in composer.misread:
                composer.note(*problem)
        if not isinstance(body, dict):
            composer.note(0, _("write fields such as name, image and command, each with a colon."))
    except (RecursionError, yaml.composer.ComposerError):
        pass  # which is noted
    except yaml.MarkedYAMLError as error:
        # What is never closed is noticed below the last line; the other mark says where it began.
        lines = [mark.line for mark in (error.problem_mark, error.context_mark) if mark]
        line = next(filter(composer.text_of, lines), 0)
        composer.note(line, _("this is not YAML: %s.") % error.problem)
    except yaml.reader.ReaderError as error:
        line = given[: error.position].count(b"\n")
        composer.note(line, _("this is not YAML: %s.") % error.reason)
    problems = tuple(composer.problems)
    if not isinstance(body, dict):
        return Document(problems=problems, is_readable=False)
    document = Document(body, composer.lines, composer.written, problems)
    # With both, one of them is a mistake, which the rules of a body report.
    is_answer = "resources" in body and not isinstance(body.get("replicas"), dict)
    return _of_answer(document) if is_answer else document


def _of_answer(document: Document) -> Document:
    """The request behind REST's answer, which `homeport get` writes with many fields that no body has."""
    of_body, of_answer = TrainingSerializer().fields, {*OneJobSerializer().fields, _EVENTS}
    left_out = document.body.keys() & of_answer - of_body.keys() - {"resources"}
    if "replicas" in document.body:
        left_out |= {"replicas"}  # how each went, there
    body = {
        _RENAMED.get(name, name): value
        for name, value in document.body.items()
        if name not in left_out
    }
    note = _(
        "resources is read as replicas, as homeport get writes them. How that training went is "
        "left out: %(fields)s."
    )
    notes = (note % {"fields": ", ".join(sorted(left_out))},) if left_out else ()
    return replace(
        document,
        body=body,
        lines=_renamed(document.lines),
        written=_renamed(document.written),
        notes=notes,
        is_answer=True,
    )


def _renamed(of_paths: Mapping[str, T]) -> dict[str, T]:
    """The same by the paths of a body."""
    found = {}
    for path, one in of_paths.items():
        first, dot, rest = path.partition(".")
        if first != "replicas":
            found[f"{_RENAMED.get(first, first)}{dot}{rest}"] = one
    return found


class _Composer:
    """Makes values of YAML's events, of which libyaml gives one at a time.

    Attributes:
        problems: what was found that no document may have; what is read goes on behind it.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self.written: dict[str, str] = {}
        self.problems: list[DocumentProblem] = []
        self.misread: list[tuple[int, str, tuple[str, ...]]] = []
        self._path_chars = 0
        self._text_lines = text.splitlines()
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)

    def text_of(self, line: int) -> str:
        """The beginning of a line, from 0."""
        return self._text_lines[line].strip()[:60] if line < len(self._text_lines) else ""

    def note(self, line: int, text: str, path: tuple[str, ...] = ()) -> None:
        """
        Args:
            line: from 0.
        """
        name = ".".join(part[:80] for part in path)
        if len(self.problems) <= _MOST_PROBLEMS:
            self.problems.append(DocumentProblem(line + 1, name, text, self.text_of(line)))

    def document(self) -> Any:
        """The value of the only document; of none an object without fields."""
        found: Any = None
        for event in self._events:
            line = event.start_mark.line
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    self.note(line, _("there may be one document only."))
                    break
                found = self._value(next(self._events), ())
        return {} if found is None else found

    def _value(self, event: Any, path: tuple[str, ...]) -> Any:
        self._check(event, path)
        line = event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            return None
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
            if not isinstance(value, str):
                self.written[".".join(path)] = event.value
            # Variables and words of a command are refused as numbers in any case, with what to write.
            if _is_misread(event.value, value) and path[:1] != ("env",) and "command" not in path:
                words = {"written": event.value, "value": value}
                self.misread.append((line, _MISREAD % words, path))
            return value
        if len(path) == _MAX_DEPTH:
            self.note(event.start_mark.line, _("this is nested too deeply."), path[:1])
            raise RecursionError
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.append(self._place(inner, (*path, str(len(items))), inner))
            return items
        found: dict[str, Any] = {}
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            found |= self._entry(inner, path, found.keys())
        return found

    def _entry(
        self, key_event: Any, path: tuple[str, ...], known: Collection[str]
    ) -> dict[str, Any]:
        """A field and its value; nothing where it may not be there."""
        line = key_event.start_mark.line
        self._check(key_event, path)
        if not isinstance(key_event, yaml.ScalarEvent):
            self.note(line, _("a field's name must be text."), path)
            self._skip_value(key_event)
            self._skip_value(next(self._events))
            return {}
        key = key_event.value
        if key in known:
            text = _("%(name)s is given twice; keep one.") % {"name": key[:80]}
            self.note(line, text, (*path, key))
            self._skip_value(next(self._events))
            return {}
        return {key: self._place(next(self._events), (*path, key), key_event)}

    def _skip_value(self, event: Any) -> None:
        """Reads over a value."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._skip()

    def _skip(self) -> None:
        """Reads over the rest of the list or object that has begun."""
        depth = 1
        while depth:
            event = next(self._events)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)

    def _place(self, event: Any, path: tuple[str, ...], first: Any) -> Any:
        self._path_chars += sum(map(len, path)) + len(path) + _ROW_CHARS
        if self._path_chars > _MAX_PATH_CHARS:
            text = _(
                "there are too many values up to here, or the names they stand in are too long."
            )
            self.note(first.start_mark.line, text, path[:1])
            raise yaml.composer.ComposerError(problem=text)
        self.lines[".".join(path)] = first.start_mark.line + 1
        return self._value(event, path)

    def _check(self, event: Any, path: tuple[str, ...]) -> None:
        line = event.start_mark.line
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self.note(line, _("write the value out instead of using & and *."), path)
        elif event.tag is not None:
            self.note(line, _("tags (!) are not taken."), path)


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


def _is_misread(written: str, value: Any) -> bool:
    """Whether it is a number, and another one than people read there: YAML 1.1 has base 60 and a base 8 of `010`."""
    return type(value) in {int, float} and (":" in written or bool(_OCTAL.fullmatch(written)))


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
