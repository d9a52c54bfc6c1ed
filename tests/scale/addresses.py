"""Every address that answers a GET, made from the URLconf, with objects of a `Cast` filled in."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls.converters import IntConverter, SlugConverter, UUIDConverter

from jobs.kinds.registry import KINDS
from jobs.models import Template
from jobs.workloads.views import page_class
from tests.portal.routes.walk import Route, routes
from tests.scale.rows import Cast

# Pods call these by their own tokens; the rest of REST answers what is not there.
NOT_FOR_PEOPLE = ("internal/", "^")
# Asked with a query besides the plain address: deep pages, filters, searches.
QUERIES: dict[str, Sequence[str]] = {
    "jobs": ("?page=2", "?state=failed", "?q=seed"),
    "job-new": ("?example=count",),
    "notebooks": ("?state=running",),
    "people": ("?q=person",),
    "namespaces": ("?q=person", "?page=2"),
    "audit": ("?q=sweep", "?page=2"),
    "api-jobs": ("?page_size=200", "?state=failed"),
    "api-tenants": ("?page_size=200",),
    "api-users": ("?page_size=200",),
    "api-audit": ("?page_size=200",),
    "api-queue": ("?page_size=200",),
    "lead-team": ("?sort=gpu",),
}


@dataclass(frozen=True)
class Address:
    """One page: the route's name (with what was chosen) and the path."""

    title: str
    path: str


def addresses(cast: Cast) -> Iterator[Address]:
    """All of them; whether somebody may see one is for the page to say."""
    for route in routes():
        if route.path.startswith(NOT_FOR_PEOPLE):
            continue
        for title, filled in _filled(cast, route):
            yield Address(title, f"/{filled}")
            for query in QUERIES.get(route.name, ()):
                yield Address(f"{title}{query}", f"/{filled}{query}")


def _filled(cast: Cast, route: Route) -> Iterator[tuple[str, str]]:
    """The path with objects in it; once for each word where it takes one of several."""
    words: Sequence[str] = ("",)
    path = route.path
    for key, converter in route.converters.items():
        if isinstance(converter, UUIDConverter):
            path = path.replace(f"<uuid:{key}>", str(_identity(cast, route.name, key)))
        elif isinstance(converter, SlugConverter):
            words = _words(key, route.view, route.name)
            path = path.replace(f"<slug:{key}>", "{word}")
        elif isinstance(converter, IntConverter):
            path = path.replace(f"<int:{key}>", "0")
        else:
            raise TypeError(f"{path}: what is {key}?")
    for word in words:
        yield (f"{route.name} {word}".strip(), path.replace("{word}", word))


def _words(key: str, view: Any, name: str) -> Sequence[str]:
    """What a page of this kind has, or the view's own module lists for this key: `PARTS` for `part`."""
    kind = KINDS.get(name.removesuffix("-fragment"))
    if kind is not None:
        return sorted(page_class(kind).parts)
    listed = getattr(sys.modules[view.__module__], f"{key.upper()}S", None)
    return sorted(listed) if listed else ("none",)


def _identity(cast: Cast, name: str, key: str) -> UUID:
    for service in cast.services.values():
        if service.kind in name:
            return service.pk
    if key == "artifact_id":
        return cast.artifact.pk
    starts: dict[tuple[str, ...], UUID] = {
        ("api-tenant", "tenant-", "namespace"): cast.tenant.pk,
        ("person", "api-user"): cast.ada.pk,
        ("team-", "api-team"): cast.team.pk,
        ("token-",): cast.token.pk,
        ("session-",): cast.session.id,
        ("upload-", "api-bundle"): cast.tenant.bundles.values_list("pk", flat=True)[0],
        ("template", "api-template"): Template.objects.filter(owner=cast.ada).values_list(
            "pk", flat=True
        )[0],
        ("job", "api-job", "lead-stop"): cast.job.pk,
    }
    for start, identity in starts.items():
        if name.startswith(start):
            return identity
    raise LookupError(f"{name}: whose id is {key}?")
