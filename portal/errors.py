"""Errors that more than one package raises or catches."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied


class ConfigurationError(ValueError):
    """A setting, the catalogue or a template cannot be used; the text names the place and what helps.

    Attributes:
        is_catalog: it is the catalogue, without which people's requests cannot be checked.
    """

    def __init__(self, text: str = "", *, is_catalog: bool = False) -> None:
        self.is_catalog = is_catalog
        super().__init__(text)


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with a request. `field` is a dotted path, empty when it is about all of it.

    Attributes:
        line: of a text that the request was read from, from 1, which `text` then names, too.
    """

    field: str
    code: str
    text: str
    line: int | None = None

    def as_dict(self) -> dict[str, Any]:
        fields = {"field": self.field, "code": self.code, "text": self.text}
        return fields if self.line is None else {**fields, "line": self.line}


class Refused(Exception):  # noqa: N818 (an answer to a person, and no error of ours)
    """What a person asks for is not done, and nothing was changed; REST and pages say why.

    Attributes:
        errors: one entry for each thing wrong.
        status: of HTTP: 400 for what was sent, 409 for what cannot be done as things are.
        next_step: what helps, where that is more than the errors say.
        retry_after_s: when it is worth another try; None: nobody knows.
    """

    def __init__(
        self,
        errors: Iterable[FieldError] | str,
        code: str = "",
        status: int = 400,
        *,
        next_step: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        """
        Args:
            errors: also one sentence about all of the request, which has the `code`.
        """
        self.errors = (FieldError("", code, errors),) if isinstance(errors, str) else tuple(errors)
        self.status = status
        self.next_step = next_step
        self.retry_after_s = retry_after_s
        super().__init__("; ".join(error.text for error in self.errors))

    @property
    def text(self) -> str:
        """All that is said of it, as sentences."""
        return " ".join([*(error.text for error in self.errors), self.next_step]).strip()


class NotAllowedError(PermissionDenied):
    """Somebody may not do this; the text says who may.

    Attributes:
        rest_text: what REST has always said, where pages say it otherwise.
    """

    def __init__(self, text: str, rest_text: str = "") -> None:
        self.rest_text = rest_text or text
        super().__init__(text)
