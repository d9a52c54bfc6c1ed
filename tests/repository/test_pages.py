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
    shown = set()
    for _who, path in PAGES.values():
        try:
            shown.add(resolve(urlsplit(path.format_map(ids)).path).url_name)
        except Resolver404:
            assert path == "/nothing-here/", f"{path} leads nowhere"
    known = {r.name for r in routes() if not NOT_FOR_BROWSERS.match(r.path)}
    assert known - shown - NO_PAGES == set(), (
        "these routes are new: show them in tests/e2e/pages.py"
    )
    assert known >= NO_PAGES, f"these are no routes any more: {NO_PAGES - known}"
    assert not NO_PAGES & shown
