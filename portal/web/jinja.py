"""The Jinja2 environment of the pages.

Named in `settings.TEMPLATES`. A template that names something unknown fails loudly
(StrictUndefined), and everything it prints is escaped. What depends on nothing but its arguments is
worked out once: addresses, names of static files, and macros that say so (`memoized`); what a
template names outright when it is compiled, so that a page does not ask for its words at all.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlencode

import jinja2
from django.http import HttpRequest
from django.templatetags import static
from django.urls import NoReverseMatch, reverse
from django.utils.timezone import now
from django.utils.translation import gettext, ngettext
from django_htmx.jinja import htmx_script
from jinja2 import nodes
from jinja2.visitor import NodeTransformer
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
    until,
)

# Texts, names of static files and addresses; no template gives another meaning to these names.
_CONSTANT = frozenset({"_", "static", "url"})
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


class _Constants(NodeTransformer):
    """Puts in what `_CONSTANT` functions answer where all their arguments are written out."""

    def __init__(self, of_name: Mapping[str, Any]) -> None:
        self._of_name = of_name

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802 (Jinja finds it by this name)
        self.generic_visit(node)
        arguments = [argument.value for argument in node.args if isinstance(argument, nodes.Const)]
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        has_others = (
            node.kwargs or node.dyn_args or node.dyn_kwargs or len(arguments) < len(node.args)
        )
        if name not in _CONSTANT or has_others:
            return node
        try:
            return nodes.Const(self._of_name[name](*arguments), lineno=node.lineno)
        except NoReverseMatch:  # of what is not installed, behind a condition
            return node


class PageEnvironment(jinja2.Environment):
    """Where constants are not asked for again by every page."""

    def _generate(self, source: nodes.Template, *where: Any, **options: Any) -> str:
        return super()._generate(_Constants(self.globals).visit(source), *where, **options)


def with_query(request: HttpRequest, **changes: Any) -> str:
    """The query string of this request with some parameters changed; None takes one away."""
    query = {name: values for name, values in request.GET.lists() if name not in changes}
    query |= {name: [str(value)] for name, value in changes.items() if value not in (None, "")}
    return f"?{urlencode(query, doseq=True)}"


def environment(**options: Any) -> jinja2.Environment:
    """The environment of every page and fragment."""
    options.update(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made = PageEnvironment(**options, extensions=["jinja2.ext.do"])
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
        until=until,
        exact=exact_text,
        hours=hours_text,
        day=day_text,
        **_of_apps,
    )
    return made
