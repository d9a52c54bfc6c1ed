"""Every page of seeded rows keeps the rules of all pages, and has no text that gave way to another."""

import re
from html.parser import HTMLParser

import pytest
from django.test import Client

from tenants.models import User
from tests.e2e.pages import PAGES
from tests.e2e.seed import seed
from tests.portal.markup import Markup, find_faults
from tests.repository.test_texts import MESSAGES

STATUS = {"nothing": 404, "forbidden": 403, "join-over": 410}
READ_OUT = {"aria-label", "title", "placeholder", "alt"}


class _Texts(HTMLParser):
    """What a page shows or reads out, piece by piece."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: set[str] = set()
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pieces |= {" ".join((text or "").split()) for name, text in attrs if name in READ_OUT}

    def handle_data(self, data: str) -> None:
        self.pieces.add(" ".join(data.split()))


@pytest.mark.django_db
def test_every_page() -> None:
    client = Client(headers={"host": "localhost"})
    ids = {name: getattr(row, "pk", row) for name, row in seed().items()}
    wanted = "|".join(re.escape(old).replace(r"\{\}", ".+") for old in MESSAGES)
    is_old = re.compile(wanted).fullmatch
    back = {}
    for name, (who, path) in PAGES.items():
        client.logout()
        if who:
            client.force_login(User.objects.get(username=who))
        answer = client.get(path.format_map(ids), follow=True)
        assert answer.status_code == STATUS.get(name, 200), name
        page, policy = Markup(answer.content.decode()), answer["Content-Security-Policy"]
        assert not find_faults(page), name
        titles = [*page.all("h1"), *page.all("h2", id="dialog-title")]
        assert len(titles) == len(page.all("main")) == 1, name
        assert page.one("a", class_="skip").get("href") == "#main", name
        assert "script-src 'self'" in policy, name
        assert "unsafe" not in policy, name
        pieces = _Texts(answer.content.decode()).pieces
        if old := sorted(filter(is_old, pieces)):
            back[name] = old
    assert not back, "tests/repository/texts.toml has what these say by now"
