"""How REST reads JSON. Apart from `portal/web/rest.py`, which imports the views that need this first."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from portal.errors import FieldError, Refused

_MOST_SHOWN = 5
_MOST_NAME_CHARS = 80
# Where a value stands: in what, and by which name or index. Put into words for an error only, as a body may have a
# hundred thousand values within one long name.
_Path: TypeAlias = "tuple[_Path, str | int] | None"


class _Object(dict[str, Any]):
    """An object of which some names were given twice: the first values, and those names."""

    twice: tuple[str, ...] = ()


class JsonParser(JSONParser):
    """JSON of which every text can be stored, and said again in an answer, and each field is given once."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """
        Raises:
            ParseError: no JSON, nested without end, or half a character (a lone surrogate).
            Refused: a field is given twice (RFC 8259, section 4, leaves open which of them counts).
        """
        encoding = (parser_context or {}).get("encoding", settings.DEFAULT_CHARSET)
        has_twice = False

        def make(pairs: list[tuple[str, Any]]) -> Any:
            nonlocal has_twice
            found = dict(pairs)
            if len(found) == len(pairs):
                return found
            counts = Counter(name for name, _value in pairs)
            twice = _Object(reversed(pairs))
            twice.twice = tuple(name for name, count in counts.items() if count > 1)
            has_twice = True
            return twice

        try:
            found = json.loads(
                stream.read().decode(encoding),
                parse_constant=_refuse_constant,
                object_pairs_hook=make,
            )
            json.dumps(found, ensure_ascii=False).encode()
            errors = list(islice(_given_twice(found, None), _MOST_SHOWN)) if has_twice else []
        except RecursionError as error:
            raise ParseError("this JSON is nested too deeply") from error
        except UnicodeEncodeError as error:
            raise ParseError("this JSON holds half a character (\\ud800)") from error
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from error
        if errors:
            raise Refused(errors)
        return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"Out of range float values are not JSON compliant: {name!r}")


def _given_twice(value: Any, path: _Path) -> Iterator[FieldError]:
    """An error for each field that is, from outside in."""
    names = value.twice if isinstance(value, _Object) else ()
    for name in names:
        text = _("%(name)s is given twice; keep one.") % {"name": name[:_MOST_NAME_CHARS]}
        yield FieldError(_shown((path, name)), "invalid", text)
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for place, one in inner:
        if isinstance(one, dict | list):
            yield from _given_twice(one, (path, place))


def _shown(path: _Path) -> str:
    """With dots between."""
    parts: list[str] = []
    while path is not None:
        path, name = path
        parts.append(str(name)[:_MOST_NAME_CHARS])
    return ".".join(reversed(parts))
