"""Forms of pages, made of a serializer's fields: `macros.html` shows what was typed and what is wrong."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.utils.functional import Promise
from rest_framework import serializers
from rest_framework.fields import empty

from portal import quantity
from portal.errors import FieldError, Refused
from portal.web.fields import Duration, Memory
from portal.web.format import bytes_text, duration_text

T = TypeVar("T")
AnyField = serializers.Field[Any, Any, Any, Any]


@dataclass(frozen=True)
class Widget:
    """How a page asks for a field of a serializer, which has it as `style={"widget": Widget(...)}`.

    Attributes:
        group: the section of the page.
        place: its place there; a field without one comes last.
        template: what shows it; "": a line of text, or what is to be chosen of.
        hint: a sentence below it.
        choices: values and their titles, when there are only these.
        attributes: more of a line of text, such as "placeholder".
    """

    group: str
    place: int = 99
    template: str = ""
    hint: str | Promise = ""
    choices: tuple[tuple[str, str | Promise], ...] = ()
    attributes: Mapping[str, str | Promise] = field(default_factory=dict)

    def __deepcopy__(self, _memo: object) -> "Widget":
        """Itself: a serializer copies its fields for each request, and this never changes."""
        return self


@dataclass(frozen=True)
class Input:
    """A field as a page shows it; `name` is that of its input."""

    name: str
    label: str | Promise
    widget: Widget


def inputs_of(fields: Mapping[str, AnyField]) -> list[Input]:
    """Those that have a widget, in the order of their places."""
    found = [
        Input(name, each.label or "", each.style["widget"])
        for name, each in fields.items()
        if "widget" in each.style
    ]
    return sorted(found, key=lambda one: one.widget.place)


def typed_text(each: AnyField, value: Any) -> str:
    """What a person would type for a value; "" for None."""
    if value is None:
        return ""
    if isinstance(each, Duration):
        return quantity.duration_text(value)
    return str(each.to_representation(value))


def shown_text(each: AnyField, value: Any) -> str:
    """A value in the words of the pages."""
    typed, titles = typed_text(each, value), dict(each.style["widget"].choices)
    if typed in titles:
        return str(titles[typed])
    if isinstance(each, Duration):
        return duration_text(value)
    return bytes_text(value) if isinstance(each, Memory) else typed


def blank_texts(fields: Mapping[str, AnyField]) -> dict[str, str]:
    """Name -> what is used while nothing is typed, of the fields that have such a default."""
    return {
        name: typed_text(each, each.default)
        for name, each in fields.items()
        if each.default is not empty
    }


@dataclass(frozen=True)
class Problem:
    """One line of the list of errors; the list links to the field.

    Attributes:
        is_shown: whether the page shows the text at the field already.
    """

    field: str
    label: str
    text: str
    is_shown: bool = False

    @property
    def key(self) -> str:
        """By which a page says that it shows this."""
        return f"{self.field}: {self.text}"


class SpecForm:
    """What stands in the fields, and what is wrong with it.

    Attributes:
        fields: name -> field of a serializer, for its label; `budget_cpu` is `budget.cpu` of a body.
        values: name -> text of the field.
        was: name -> text that the field began with; a page may send it along as `was-NAME`.
        errors: name -> sentences beside the field.
        problems: what is wrong with the request as a whole.
        codes: of all that was refused.
    """

    def __init__(
        self,
        fields: Mapping[str, AnyField],
        posted: Mapping[str, Any] | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        path: str = "",
    ) -> None:
        """
        Args:
            posted: None: nobody has typed yet.
            shown: name -> text for a field that was not sent.
            path: where the fields stand in the body that errors tell of, for example "quota.".
        """
        given, texts = posted or {}, shown or {}
        self.fields = fields
        self.was = {name: str(given.get(f"was-{name}", texts.get(name, ""))) for name in fields}
        self.values = {name: str(given.get(name, texts.get(name, ""))).strip() for name in fields}
        self.errors: dict[str, list[str]] = {}
        self.problems: list[str] = []
        self.codes: set[str] = set()
        self._path = path

    @property
    def is_wrong(self) -> bool:
        return bool(self.errors or self.problems)

    @property
    def typed(self) -> dict[str, str]:
        """The fields that were typed over; somebody else may have changed the others meanwhile."""
        return {name: text for name, text in self.values.items() if text != self.was[name]}

    @property
    def told(self) -> list[Problem]:
        """All that is wrong, in the order in which it was found; what is about no field comes last."""
        at_fields = [
            Problem(name, str(self.fields[name].label), " ".join(texts))
            for name, texts in self.errors.items()
        ]
        return at_fields + [Problem("", "", text) for text in self.problems]

    def attempt(self, act: Callable[[], T]) -> T | None:
        """What `act` returns; None when it is refused, and then the errors are in the form."""
        try:
            return act()
        except Refused as refusal:
            self.take(refusal.errors)
            return None

    def attempt_at(self, name: str, act: Callable[[], T]) -> T | None:
        """The same, with all that is said of a refusal at one field."""
        try:
            return act()
        except Refused as refusal:
            self.errors[name] = [refusal.text]
            return None

    def take(self, errors: Iterable[FieldError]) -> None:
        """Puts errors of a body at the fields of this form."""
        for error in errors:
            self.codes.add(error.code)
            name, text = self.place(error)
            if name in self.values:
                self.errors.setdefault(name, []).append(text)
            else:
                self.problems.append(text)

    def place(self, error: FieldError) -> tuple[str, str]:
        """The field at which the form tells an error of a body, and its words."""
        return error.field.removeprefix(self._path).replace(".", "_"), error.text
