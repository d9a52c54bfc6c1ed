"""Clients and short ways for tests of people."""

import json
from typing import Any

from django.test import Client

from tenants.actions import create_token
from tenants.models import AuditEntry, User

PASSWORD = "a long password"
NEW = {"new_password1": "orange tugboat 7", "new_password2": "orange tugboat 7"}


def signed_in(user: User) -> Client:
    """A browser that has signed in by the form."""
    client = Client(HTTP_HOST="localhost")
    answer = client.post("/sign-in/", {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302, answer.content
    return client


def rest(user: User, scope: str = "") -> Client:
    """A client of REST with a token."""
    _token, plain = create_token(by=user, name="t", scope=scope)
    return Client(HTTP_HOST="localhost", headers={"Authorization": f"Token {plain}"})


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    """The answer to a JSON body, under /api/v1/."""
    return client.generic(
        method,
        f"/api/v1/{path}",
        "" if body is None else json.dumps(body),
        content_type="application/json",
    )


def codes(answer: Any) -> set[tuple[str, str]]:
    """(field, code) of each error."""
    return {(error["field"], error["code"]) for error in answer.json()["errors"]}


def last_entry() -> AuditEntry:
    entry = AuditEntry.objects.first()
    assert entry is not None
    return entry
