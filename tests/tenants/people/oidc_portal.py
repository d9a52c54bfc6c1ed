"""A portal process without a cluster that signs people in by the provider of these tests."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.portal.programs import program
from tests.portal.whole import Whole, whole_portal
from tests.tenants.people.provider import CLIENT_ID, CLIENT_SECRET, Provider

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
    """Attributes: `settings` are those of the provider."""

    whole: Whole
    provider: Provider
    settings: dict[str, str]

    @property
    def url(self) -> str:
        return self.whole.url

    def manage(self, code: str) -> str:
        """What a piece of Python prints inside the portal's Django."""
        shell = ("manage.py", "shell", "--no-imports", "-c", code)
        done = program(self.whole.home, *shell, **self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def oidc_portal(pair: tuple[Path, Path] | None = None, **more: str) -> Iterator[OidcPortal]:
    """Provider (with `pair` by HTTPS) and portal, each on its port; ada has a password and an e-mail address."""
    provider = Provider({sub: dict(claims) for sub, claims in PEOPLE.items()}, pair)
    settings = {
        "OIDC_ISSUER": provider.issuer,
        "OIDC_CLIENT_ID": CLIENT_ID,
        "OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "OIDC_NAME": "Lab login",
        "OIDC_ALLOWED_GROUP": "lab",
        "OIDC_ADMIN_GROUP": "homeport-admins",
        **more,
    }
    provider.start()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="homeport-oidc-") as folder,
            whole_portal(Path(folder), **settings) as whole,
        ):
            portal = OidcPortal(whole, provider, settings)
            provider.redirect_uri = f"{portal.url}/oidc/callback/"
            portal.manage(
                "from tenants.models import User\n"
                f"User.objects.create_user('ada', 'ada@lab.example', {PASSWORD!r})\n"
                f"User.objects.create_user('root', password={PASSWORD!r}, role='admin')"
            )
            yield portal
    finally:
        provider.stop()


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
