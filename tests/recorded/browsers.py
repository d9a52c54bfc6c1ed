"""What browsers and programs ask for over HTTP: addresses, answers, query parameters, REST."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponseBase, QueryDict
from django.test import Client

from portal.storage import get_store
from tests.factories import make_user
from tests.portal.routes.scene import Scene, undone
from tests.portal.routes.table import TABLE, Door
from tests.portal.routes.walk import Route, routes, sockets

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")
# Who asks for a thing of Alice's, and what they are to her; at addresses of no thing, what they are.
ROLES = {
    "alice": "owner",
    "bob": "mate",
    "lee": "lead",
    "olga": "other lead",
    "root": "admin",
    "nobody": "nobody",
}
KINDS = {"alice": "researcher", "lee": "lead", "root": "admin", "nobody": "nobody"}
# Drawing takes half of the time, and is done for the first only who is shown a page.
_UNDRAWN = mock.patch("django.template.backends.jinja2.Template.render", return_value="")
_IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def without_ids(text: str) -> str:
    """The text with a word for each UUID."""
    return _IDENTITY.sub("<id>", text)


def openapi() -> str:
    """The OpenAPI document as it is served."""
    client = Client(HTTP_HOST="localhost")
    client.force_login(make_user("reader"))
    return client.get("/api/v1/schema/").content.decode()


class Asked(QueryDict):
    """The query of a request, which writes down for all of them what is looked for."""

    names: ClassVar[set[str]] = set()

    def __getitem__(self, key: str) -> Any:
        self.names.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def getlist(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().getlist(key, default)


def addresses() -> str:
    """Each address with its query parameters, and what each role is told, by a session.

    An answer is its status, where it leads to, and the columns of a CSV file. PUT and others that an
    address does not know are left out.
    """
    openapi()  # made once in the life of a process; on the way it looks at filters of others
    scene = Scene()
    lines = []
    try:
        query = property(lambda request: Asked(request.META["QUERY_STRING"]))
        with mock.patch.object(WSGIRequest, "GET", query):
            for route in sorted(routes(), key=lambda route: route.path):
                if TABLE[route.key].door is not Door.PODS:
                    lines += [f"/{route.path}", *_asked(scene, route)]
    finally:
        for things in scene.things.values():
            get_store().delete(things.artifact.storage_key)
    return "\n".join([*lines, *(f"/{route.path} (websocket)" for route in sockets())]) + "\n"


def _asked(scene: Scene, route: Route) -> list[str]:
    rule = TABLE[route.key]
    names = Asked.names
    names.clear()
    lines = []
    callers = ROLES if scene.has_id(route) else KINDS
    targets: list[tuple[str, str | None]] = [(caller, "alice") for caller in callers]
    if scene.has_id(route):
        targets.append(("root", None))
    for method in METHODS:
        if rule.of(method) is None:
            continue
        told, drawn = defaultdict(list), False
        for caller, whose in targets:
            path = scene.address(route, rule, whose)
            assert path is not None
            with undone(), _UNDRAWN if drawn else nullcontext():
                answer = scene.send(caller, method, path, form=rule.form)
                told[_said(answer)].append(callers[caller] if whose else "absent")
                drawn = drawn or answer.status_code == 200
        lines += [f"  {method} {said}: {', '.join(who)}" for said, who in sorted(told.items())]
    if rule.of("GET") is not None and names:
        # Some are looked for only where others are given.
        path = scene.address(route, rule, "alice")
        given = "&".join(f"{name}=1" for name in sorted(names))
        with undone():
            assert scene.send("root", "GET", f"{path}?{given}").status_code < 500
    return [f"  ?{' '.join(sorted(names))}", *lines] if names else lines


def _said(answer: HttpResponseBase) -> str:
    said = str(answer.status_code)
    if "Location" in answer:
        said += " to " + without_ids(answer["Location"].partition("?")[0])
    if answer.get("Content-Type", "").startswith("text/csv"):
        content = b"".join(answer) if answer.streaming else answer.content  # type: ignore[attr-defined]
        said += " " + content.decode("utf-8-sig").splitlines()[0]
    return said


def kept_in_browsers() -> dict[str, Any]:
    """Names of cookies, by HTTP and by HTTPS, and of what scripts keep."""
    client = Client(HTTP_HOST="localhost")
    make_user("alice")
    given = {"username": "alice", "password": "a long password"}
    answers = [client.get("/sign-in/"), client.post("/sign-in/", given)]
    scripts = [path.read_text() for path in (ROOT / "static").rglob("*.js")]
    keys = [re.findall(r'"(homeport[-:.][^"]*)"', text) for text in scripts if "Storage" in text]
    return {
        "cookies": sorted({name for answer in answers for name in answer.cookies}),
        "cookies by HTTPS": _cookies_by_https(),
        "storage": sorted({key for found in keys for key in found}),
    }


def _cookies_by_https() -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        settings = subprocess.run(
            [sys.executable, "manage.py", "diffsettings"],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOMEPORT_HOME": home,
                "PUBLIC_URL": "https://portal.example",
                "HTTPS": "yes",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return sorted(re.findall(r"^(?:SESSION|CSRF)_COOKIE_NAME = '(.*)'", settings, re.MULTILINE))


def as_json(answer: HttpResponseBase) -> Any:
    """The body of an answer, without ids."""
    return json.loads(without_ids(answer.content.decode()))  # type: ignore[attr-defined]
