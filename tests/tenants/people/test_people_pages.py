"""The admin's pages of people."""

import re

import pytest
from django.test import Client

from tenants.models import Team, User
from tests.factories import make_tenant, make_user
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def read(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def names(text: str) -> list[str]:
    return re.findall(r'class="job-name"[^>]*>([^<]*)<', text)


@pytest.fixture
def crowd(root: User) -> None:
    team = Team.objects.create(name="vision")
    alice = make_tenant("alice", team=team).owner
    alice.first_name, alice.email = "Alice", "al@lab.example"
    alice.save()
    bob = make_user("bob", team=team)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    ann = make_user("ann")
    ann.set_unusable_password()
    ann.save()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["Alice", "ann", "bob", "root"]),
        ("?state=active", ["Alice", "root"]),
        ("?state=invited", ["ann"]),
        ("?state=disabled", ["bob"]),
        ("?state=nonsense", ["Alice", "ann", "bob", "root"]),
        ("?q=AL", ["Alice"]),
        ("?q=al+lab.example", ["Alice"]),
        ("?role=admin", ["root"]),
        ("?team=vision", ["Alice", "bob"]),
        ("?team=-", ["ann", "root"]),
        ("?team=vision&state=disabled", ["bob"]),
        ("?q=%00nobody", []),
        ("?page=99", ["Alice", "ann", "bob", "root"]),
    ],
)
def test_people_are_found(page: Client, crowd: None, query: str, found: list[str]) -> None:
    assert names(read(page, f"/admin/people/{query}")) == found


def test_tabs_count_what_the_search_finds(page: Client, crowd: None) -> None:
    text = Markup(read(page, "/admin/people/?team=vision")).text
    assert re.search(r"All\s*2\s*Active\s*1\s*Invited\s*0\s*Disabled\s*1", text)


def test_an_invitation_shows_its_link_this_once(page: Client, root: User) -> None:
    answer = page.post("/admin/people/invite/", {"username": "ann", "first_name": "Ann"})
    assert answer.status_code == 400  # without a role
    answer = page.post("/admin/people/invite/", {"username": "ann", "role": "researcher"})
    text = answer.content.decode()
    link = re.search(r"http://localhost(/join/[^<]+/)<", text)
    assert link is not None
    assert Client(HTTP_HOST="localhost").get(link.group(1)).status_code == 200
    ann = User.objects.get(username="ann")
    assert link.group(1) not in read(page, f"/admin/people/{ann.pk}/")
    assert "no-store" in answer["Cache-Control"]


def test_a_wrong_invitation_keeps_what_was_typed(page: Client) -> None:
    body = {"username": "a b", "first_name": "Ann", "role": "researcher", "email": "no"}
    answer = page.post("/admin/people/invite/", body)
    shown = Markup(answer.content.decode())
    assert answer.status_code == 400
    assert (shown.value("username"), shown.value("first_name")) == ("a b", "Ann")
    assert "username-error" in answer.content.decode()
    assert "email-error" in answer.content.decode()


def test_role_and_team_are_changed_on_one_form(page: Client, crowd: None) -> None:
    alice = User.objects.get(username="alice")
    body = {"first_name": "Al", "last_name": "", "email": "", "role": "admin", "team": ""}
    assert page.post(f"/admin/people/{alice.pk}/", body).status_code == 302
    alice.refresh_from_db()
    assert (alice.first_name, alice.role, alice.team) == ("Al", "admin", None)
    text = read(page, f"/admin/people/{alice.pk}/")
    assert "team: vision → none" in text


def test_what_an_admin_cannot_do_to_themselves_is_told(page: Client, root: User) -> None:
    body = {"first_name": "", "last_name": "", "email": "", "role": "researcher", "team": ""}
    answer = page.post(f"/admin/people/{root.pk}/", body)
    assert answer.status_code == 400
    assert "This is the last admin." in answer.content.decode()
    answer = page.post(f"/admin/people/{root.pk}/disable/", follow=True)
    assert "You cannot disable yourself" in answer.content.decode()
    answer = page.post(f"/admin/people/{root.pk}/reset/", follow=True)
    assert "Change your own password on your account page." in answer.content.decode()
    root.refresh_from_db()
    assert root.has_usable_password()
