"""Inviting from the server's command line."""

from io import StringIO
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tenants.models import AuditEntry, User
from tests.factories import make_user
from tests.tenants.people.people import NEW

pytestmark = pytest.mark.django_db


def invite(*arguments: str) -> str:
    out = StringIO()
    call_command("invite", *arguments, stdout=out)
    return urlsplit(out.getvalue().splitlines()[0]).path


def test_the_first_admin_is_invited_on_the_server() -> None:
    path = invite("ann", "--role", "admin")
    browser = Client(HTTP_HOST="localhost")
    assert browser.post(path, NEW).status_code == 302
    assert browser.get("/admin/people/").status_code == 200
    entry = AuditEntry.objects.get(verb="invite")
    assert (entry.actor, entry.actor_name, entry.object_name) == (None, "homeport", "ann")


def test_an_admin_who_lost_the_password_gets_a_new_link() -> None:
    root = make_user("root", role="admin")
    path = invite("root")
    assert Client(HTTP_HOST="localhost").get(path).status_code == 200
    root.refresh_from_db()
    assert not root.has_usable_password()
    assert root.may("administer")


@pytest.mark.parametrize("name", ["a b", "homeport"])
def test_a_name_that_cannot_be_is_told(name: str) -> None:
    with pytest.raises(CommandError):
        invite(name)
    assert not User.objects.exists()
