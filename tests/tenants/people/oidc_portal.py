"""A portal process without a cluster that signs people in by the provider of these tests."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from deploy.testcluster.ports import free_port
from tests.e2e.portal import ROOT
from tests.tenants.people.provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.tools.waiting import wait_for

PASSWORD = "a long demo password"
PEOPLE = {
    "sub-ann": {
        "preferred_username": "ann",
        "given_name": "Ann",
        "family_name": "Lee",
        "email": "ann@lab.example",
        "groups": ["lab"],
    },
    "sub-boss": {"preferred_username": "boss", "groups": ["lab", "homeport-admins"]},
    "sub-ada": {"preferred_username": "ada", "email": "other@lab.example", "groups": ["lab"]},
    "sub-mail": {"preferred_username": "zoe", "email": "ADA@lab.example", "groups": ["lab"]},
    "sub-stranger": {"preferred_username": "stranger", "groups": ["visitors"]},
    "sub-odd": {
        "preferred_username": "<b>Zoë X</b>/../\u0000",
        "email": "no mail",
        "groups": "lab",
    },
}


@dataclass
class OidcPortal:
    url: str
    provider: Provider
    home: Path
    environment: dict[str, str]

    def manage(self, code: str) -> str:
        """What a piece of Python prints inside the portal's Django."""
        return subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
            cwd=ROOT,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


@contextmanager
def oidc_portal(**settings: str) -> Iterator[OidcPortal]:
    """Provider and portal, each on its port; ada has a password and an e-mail address."""
    provider = Provider({sub: dict(claims) for sub, claims in PEOPLE.items()})
    provider.start()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="homeport-oidc-") as folder:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "HOMEPORT_HOME": folder,
            "PORT": str(port),
            "POD_PORT": str(free_port()),
            "OIDC_ISSUER": provider.issuer,
            "OIDC_CLIENT_ID": CLIENT_ID,
            "OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "OIDC_NAME": "Lab login",
            "OIDC_ALLOWED_GROUP": "lab",
            "OIDC_ADMIN_GROUP": "homeport-admins",
            **settings,
        }
        for name in ("DATABASE_URL", "REDIS_URL", "S3_BUCKET", "HOMEPORT_KUBECONFIG"):
            environment.pop(name, None)
        portal = OidcPortal(f"http://localhost:{port}", provider, Path(folder), environment)
        provider.redirect_uri = f"{portal.url}/oidc/callback/"
        manage = [sys.executable, "manage.py"]
        for command in (["migrate", "-v0"], ["collectstatic", "--noinput", "-v0"]):
            subprocess.run([*manage, *command], cwd=ROOT, env=environment, check=True)
        portal.manage(
            "from tenants.models import User\n"
            f"User.objects.create_user('ada', 'ada@lab.example', {PASSWORD!r})\n"
            f"User.objects.create_user('root', password={PASSWORD!r}, role='admin')"
        )
        server = subprocess.Popen([*manage, "serve", "--no-reconciler"], cwd=ROOT, env=environment)
        try:
            wait_for("the portal answers", lambda: _answers(portal.url, server), timeout_s=60)
            yield portal
        finally:
            server.terminate()
            server.wait(20)
            provider.stop()


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "the portal ended"
    try:
        return requests.get(f"{url}/healthz", timeout=2).ok
    except requests.RequestException:
        return False


@dataclass
class Visitor:
    """A browser without JavaScript."""

    portal: OidcPortal
    session: requests.Session

    def get(self, path: str) -> str:
        return self.session.get(f"{self.portal.url}{path}", timeout=30).text

    def post(self, path: str, page: str, **data: str) -> requests.Response:
        """Sends a form of the page with its CSRF token."""
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token is not None, page
        body = {**data, "csrfmiddlewaretoken": token.group(1)}
        return self.session.post(f"{self.portal.url}{path}", data=body, timeout=30)

    def to_provider(self, **data: str) -> str:
        """Presses the button; the address at the provider."""
        answer = self.post(
            "/oidc/", self.get("/account/" if "connect" in data else "/sign-in/"), **data
        )
        assert answer.status_code == 200, answer.text
        return answer.headers["Refresh"].removeprefix("0; url=")

    def come_as(self, subject: str, **data: str) -> requests.Response:
        """Presses the button and says at the provider who it is; the page that comes in the end."""
        where = self.to_provider(**data)
        return self.session.get(f"{where}&login_as={subject}", timeout=30)

    def is_signed_in(self) -> bool:
        answer = self.session.get(f"{self.portal.url}/account/", allow_redirects=False, timeout=30)
        return answer.status_code == 200

    def sign_in(self, name: str) -> None:
        self.post("/sign-in/", self.get("/sign-in/"), username=name, password=PASSWORD)
        assert self.is_signed_in()


def visitor(portal: OidcPortal) -> Visitor:
    return Visitor(portal, requests.Session())
