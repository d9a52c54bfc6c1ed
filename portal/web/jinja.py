"""The Jinja2 environment of the pages.

Named in `settings.TEMPLATES`. A template that names something unknown fails loudly
(StrictUndefined), and everything it prints is escaped.
"""

from collections.abc import Callable
from typing import Any

import jinja2
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import gettext, ngettext
from django_htmx.jinja import htmx_script

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


def url(name: str, *args: Any, **kwargs: Any) -> str:
    """The address of a named route."""
    return reverse(name, args=args or None, kwargs=kwargs or None)


def with_query(request: HttpRequest, **changes: Any) -> str:
    """The query string of this request with some parameters changed; None takes one away."""
    query = request.GET.copy()
    for name, value in changes.items():
        query.pop(name, None)
        if value not in (None, ""):
            query[name] = str(value)
    return f"?{query.urlencode()}" if query else "?"


def environment(**options: Any) -> jinja2.Environment:
    """The environment of every page and fragment."""
    options.update(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made = jinja2.Environment(**options, extensions=["jinja2.ext.i18n", "jinja2.ext.do"])
    made.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.globals.update(
        static=static, url=url, with_query=with_query, htmx_script=htmx_script, now=now
    )
    made.filters.update(
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
