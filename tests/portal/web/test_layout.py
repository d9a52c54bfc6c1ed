"""The navigation: each role is shown its pages, wide and narrow (by keyboard: tests/e2e)."""

import pytest
from django.test import Client

from tenants.models import Team
from tests.browsing import read
from tests.factories import make_tenant, make_user
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"})


def titles_of(page: Markup) -> list[str]:
    """What the wide navigation leads to, the Admin menu included."""
    wide = page.one("nav", class_="nav")
    return [e.text.strip() for e in page.all("a") if wide in e.ancestors]


def test_the_navigation_shows_each_role_its_pages(client: Client) -> None:
    team = Team.objects.create(name="vision")
    ada, lee = make_tenant("ada").owner, make_user("lee")
    root = make_user("root", role="admin")
    team.leads.add(lee)
    shown = {}
    for user in (ada, lee, root):
        client.force_login(user)
        shown[user.username] = titles_of(read(client, "/"))
    assert {"Overview", "Trainings", "Nodes", "Queue"} <= set(shown["ada"])
    assert "Health" not in shown["ada"] + shown["lee"]
    assert "Team" in shown["lee"]
    assert "Team" not in shown["ada"]
    assert {"Health", "Namespaces", "People"} <= set(shown["root"])


def test_forms_of_a_page_share_a_token_that_no_other_page_has() -> None:
    client = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    client.force_login(make_user("ada"))
    shown = []
    for _ in range(2):
        fields = read(client, "/trainings/").all("input", name="csrfmiddlewaretoken")
        assert len(fields) > 1
        [token] = {field.attributes["value"] for field in fields}
        shown.append(token)
    assert shown[0] != shown[1]
    assert client.post("/sign-out/").status_code == 403
    assert client.post("/sign-out/", {"csrfmiddlewaretoken": shown[0]}).status_code == 302
