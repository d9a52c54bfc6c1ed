"""Every page is in the list from which pictures are taken and accessibility is checked."""

import re
from collections import defaultdict
from urllib.parse import urlsplit
from uuid import UUID

from django.urls import Resolver404, resolve

from tests.e2e.pages import NO_PAGES, PAGES
from tests.portal.routes.walk import routes

NOT_FOR_BROWSERS = re.compile(r"\^?(api|internal)/")


def test_every_route_is_in_the_list_of_pages_or_is_none() -> None:
    ids = defaultdict(lambda: str(UUID(int=7)))
    shown, views = set(), set()
    for _who, path in PAGES.values():
        try:
            found = resolve(urlsplit(path.format_map(ids)).path)
        except Resolver404:
            assert path == "/nothing-here/", f"{path} leads nowhere"
        else:
            shown.add(found.url_name)
            views.add(found.func)
    known = {r.name: r.view for r in routes() if not NOT_FOR_BROWSERS.match(r.path)}
    assert known.keys() >= NO_PAGES, f"these are no routes any more: {NO_PAGES - known.keys()}"
    # By their views: the pages of one more kind are those of all kinds.
    views |= {known[name] for name in NO_PAGES}
    new = {name for name, view in known.items() if view not in views}
    assert not new, "these routes are new: show them in tests/e2e/pages.py"
    assert not NO_PAGES & shown
