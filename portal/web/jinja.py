"""The Jinja2 environment of the pages.

Named in `settings.TEMPLATES`. A template that names something unknown fails loudly
(StrictUndefined), and everything it prints is escaped. What depends on nothing but its arguments is
worked out once: addresses, names of static files, and macros that say so (`memoized`).
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlencode

import jinja2
from django.http import HttpRequest
from django.templatetags import static
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext, ngettext
from django_htmx.jinja import htmx_script
from markupsafe import Markup

from portal.web.format import (
    age,
    amount_text,
    bytes_text,
    clock,
    cores_text,
    day_text,
    duration_text,
    elapsed,
    exact_text,
    hours_text,
)

_of_apps: dict[str, Callable[..., Any]] = {}


def add_filters(**filters: Callable[..., Any]) -> None:
    """Filters of an app, which it brings when it is ready: before the first page is made."""
    _of_apps.update(filters)


@lru_cache(maxsize=4096)
def url(name: str, *args: Any, **kwargs: Any) -> str:
    """The address of a named route."""
    return reverse(name, args=args or None, kwargs=kwargs or None)


def memoized(macro: Callable[..., Markup]) -> Callable[..., Markup]:
    """The same macro, which keeps what it made: for one that depends on its arguments alone.

    Typed, for a text and the same text as markup are equal, and are not printed alike.
    """
    return lru_cache(maxsize=1024, typed=True)(macro)


def text(message: str, /, **values: Any) -> Markup:
    """A text with its values, which are escaped."""
    return Markup(gettext(message)) % values if values else _plain_text(message)


@lru_cache(maxsize=4096)
def _plain_text(message: str) -> Markup:
    return Markup(gettext(message)) % {}


def text_of_number(singular: str, plural: str, num: int, /, **values: Any) -> Markup:
    """The same for a number, which the text has as `num`."""
    return Markup(ngettext(singular, plural, num)) % {"num": num, **values}


def with_query(request: HttpRequest, **changes: Any) -> str:
    """The query string of this request with some parameters changed; None takes one away."""
    query = {name: values for name, values in request.GET.lists() if name not in changes}
    query |= {name: [str(value)] for name, value in changes.items() if value not in (None, "")}
    return f"?{urlencode(query, doseq=True)}"


def environment(**options: Any) -> jinja2.Environment:
    """The environment of every page and fragment."""
    options.update(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made = jinja2.Environment(**options, extensions=["jinja2.ext.do"])
    made.globals.update(
        _=text,
        ngettext=text_of_number,
        static=cache(static.static),
        url=url,
        with_query=with_query,
        htmx_script=cache(htmx_script),
        now=now,
    )
    made.filters.update(
        memoized=memoized,
        bytes=bytes_text,
        cores=cores_text,
        amount=amount_text,
        duration=duration_text,
        age=age,
        clock=clock,
        elapsed=elapsed,
        exact=exact_text,
        hours=hours_text,
        day=day_text,
        **_of_apps,
    )
    return made
