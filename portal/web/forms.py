"""Forms of pages, made of a serializer's fields: `macros.html` shows what was typed and what is wrong."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rest_framework import serializers

from portal.errors import FieldError, Refused

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """One line of the list of errors; the list links to the field."""

    field: str
    label: str
    text: str


class SpecForm:
    """What stands in the fields, and what is wrong with it.

    Attributes:
        fields: name -> field of a serializer, for its label; `budget_cpu` is `budget.cpu` of a body.
        values: name -> text of the field.
        was: name -> text that the field began with; a page may send it along as `was-NAME`.
        errors: name -> sentences beside the field.
        problems: what is wrong with the request as a whole.
    """

    def __init__(
        self,
        fields: Mapping[str, serializers.Field[Any, Any, Any, Any]],
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

    def take(self, errors: Iterable[FieldError]) -> None:
        """Puts errors of a body at the fields of this form."""
        for error in errors:
            name, text = self.place(error)
            if name in self.values:
                self.errors.setdefault(name, []).append(text)
            else:
                self.problems.append(text)

    def place(self, error: FieldError) -> tuple[str, str]:
        """The field at which the form tells an error of a body, and its words."""
        return error.field.removeprefix(self._path).replace(".", "_"), error.text
