"""What of the settings is not safe, and who is told: a table of environments."""

import os
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from django.core import checks
from django.test import Client

from portal import insecure, public_address
from portal.environment.parsers import parse_labels
from portal.errors import ConfigurationError
from portal.server.doors import Doors
from tests.factories import make_user
from tests.portal.programs import program
from tests.portal.servers import serving
from tests.tools.authority import Authority
from tests.tools.documented_settings import documented, problems

KEY = "a-key-of-fifty-letters-that-nobody-can-guess-1234567890"
SAFE: dict[str, Any] = {"LISTEN": "0.0.0.0", "HTTPS": True, "TRUSTED_PROXIES": ["10.0.0.1"]}
OPEN = {**SAFE, "HTTPS": False}

# Settings (those of a laptop where nothing is said), and what is found in them.
TABLE: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set()),
    ({"DEBUG": True, "SECRET_KEY": "short"}, set()),
    ({"LISTEN": "127.0.0.7"}, set()),
    ({"LISTEN": "::1"}, set()),
    ({"LISTEN": "localhost", "PUBLIC_URL": "http://localhost:8000"}, set()),
    (SAFE, set()),
    (OPEN, {"homeport.E004"}),
    ({"LISTEN": ""}, {"homeport.E004"}),
    ({"LISTEN": "::"}, {"homeport.E004"}),
    ({"PUBLIC_URL": "http://homeport.lab.example"}, {"homeport.E004"}),
    ({**OPEN, "ACCEPT_INSECURE": ["plain-http"]}, {"homeport.W004"}),
    ({**SAFE, "SECRET_KEY": "short"}, {"homeport.E005"}),
    ({**SAFE, "SECRET_KEY": "ab" * 40}, {"homeport.E005"}),
    ({**SAFE, "SECRET_KEY": "short", "ACCEPT_INSECURE": ["short-key"]}, {"homeport.W005"}),
    ({**SAFE, "SECRET_KEY": "short", "ACCEPT_INSECURE": ["plain-http"]}, {"homeport.E005"}),
    ({**SAFE, "DEBUG": True}, {"homeport.E003"}),
    (
        {**OPEN, "DEBUG": True, "ACCEPT_INSECURE": ["plain-http", "short-key", "no-redis"]},
        {"homeport.E003", "homeport.W004"},
    ),
    ({"BROWSER_HOSTS": ["localhost", "[::1]"]}, set()),
    ({"BROWSER_HOSTS": ["homeport.lab.example"]}, {"homeport.E004"}),
    ({"BROWSER_HOSTS": ["*"]}, {"homeport.E004", "homeport.E006", "homeport.E001"}),
    ({"BROWSER_HOSTS": [".lab.example"]}, {"homeport.E004", "homeport.E006"}),
    (
        {"BROWSER_HOSTS": [".lab.example"], "NODE_HOST": "node.Lab.example"},
        {"homeport.E004", "homeport.E006", "homeport.E001"},
    ),
    ({**SAFE, "TRUSTED_PROXIES": []}, {"homeport.W003"}),
    ({**SAFE, "TRUSTED_PROXIES": ["10.0.0.0/24", "fd00::5", "*"]}, set()),
    ({**SAFE, "TRUSTED_PROXIES": ["proxy.lab.example"]}, {"homeport.W003"}),
    ({"POD_PORTAL_URL": "http://pods.homeport.svc:8000"}, {"homeport.W008"}),
    (
        {
            "POD_PORTAL_URL": "http://pods.homeport.svc.cluster.local:8000",
            "POD_PORTAL_SELECTOR": {"component": "web"},
        },
        set(),
    ),
]


@pytest.fixture(autouse=True)
def _laptop(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portal for who sits at this machine, and nobody else."""
    pem = tmp_path / "pem"
    pem.write_text("-")
    laptop = {
        "LISTEN": "127.0.0.1",
        "PUBLIC_URL": "",
        "HTTPS": False,
        "DEBUG": False,
        "SECRET_KEY": KEY,
        "REDIS_URL": "",
        "ACCEPT_INSECURE": [],
        "TRUSTED_PROXIES": [],
        "BROWSER_HOSTS": ["localhost"],
        "NODE_HOST": "127.0.0.1",
        "GATE_TLS_CERT_FILE": str(pem),
        "GATE_TLS_KEY_FILE": str(pem),
        "HOMEPORT_HOME": tmp_path,
        "POD_PORTAL_URL": "http://10.244.0.1:8000",
        "POD_PORTAL_SELECTOR": {},
    }
    for name, value in laptop.items():
        setattr(settings, name, value)
    monkeypatch.setattr(insecure._Process, "is_split", False)


@pytest.mark.parametrize(
    ("given", "right"),
    TABLE,
    ids=lambda row: ",".join(map(str, row if isinstance(row, dict) else sorted(row))),
)
def test_what_is_found(settings: Any, given: dict[str, Any], right: set[str]) -> None:
    for name, value in given.items():
        setattr(settings, name, value)
    found = checks.run_checks(tags=["homeport"], include_deployment_checks=True)
    assert {message.id for message in found} == right
    assert all(message.hint for message in found)
    refused = right & {"homeport.E003", "homeport.E004", "homeport.E005"}
    why = insecure.refusal()
    assert all(one in why for one in refused)
    assert bool(why) == bool(refused)
    # What nothing accepts is not offered; else the line names all that is needed.
    is_offered = bool(refused) and "homeport.E003" not in refused
    assert ("set ACCEPT_INSECURE=" in why) == is_offered


def test_authorities_that_pods_could_not_use_are_refused(settings: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pem, (_, key) = authority.pem, authority.pair("server")
    file = tmp_path / "authorities.pem"
    for content, why in (
        (None, "cannot be read: No such file"),
        (b"", "no certificates"),
        (b"\x30\x82\xff" + bytes(100), "no certificates"),
        (pem[: len(pem) // 2], "no certificates"),
        (key.read_bytes(), "no certificates"),
        (pem + key.read_bytes(), "a private key"),
        (pem * (2 * 1024**2 // len(pem)), "at most 1,048,576"),
        ("# Főtanúsítvány\n".encode() + pem * 2, ""),
    ):
        if content is not None:
            file.write_bytes(content)
        settings.POD_AUTHORITIES_FILE = str(file)
        found = checks.run_checks(tags=["homeport"])
        assert [one.id for one in found] == ["homeport.E008"] * bool(why), content
        assert all(why in one.msg and "POD_AUTHORITIES_FILE" in one.msg for one in found)


def test_processes_apart_need_redis(settings: Any) -> None:
    insecure.say_split()
    assert "ACCEPT_INSECURE=no-redis" in insecure.refusal()
    settings.LISTEN = "0.0.0.0"
    assert "ACCEPT_INSECURE=plain-http,no-redis" in insecure.refusal()
    settings.ACCEPT_INSECURE = ["plain-http"]
    # What was accepted before stays in the line, which is to be copied.
    assert "ACCEPT_INSECURE=plain-http,no-redis" in insecure.refusal()
    settings.REDIS_URL = "redis://redis/0"
    assert insecure.refusal() == ""


def test_a_home_that_others_can_read_is_a_warning(settings: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (message,) = checks.run_checks(tags=["homeport"])
    assert (message.id, message.level) == ("homeport.W002", checks.WARNING)
    assert f"chmod 700 {tmp_path}" in message.hint


@pytest.mark.django_db
def test_admins_are_told_what_was_accepted(settings: Any) -> None:
    settings.LISTEN, settings.ACCEPT_INSECURE = "0.0.0.0", ["plain-http"]
    said = "travel by plain HTTP"
    for name, role, is_told in (("root", "admin", True), ("ada", "researcher", False)):
        client = Client(headers={"Host": "localhost"})
        client.force_login(make_user(name, role=role))
        assert (said in client.get("/account/").content.decode()) == is_told, name


# --- one address -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("public_url", "hosts", "https", "right"),
    [
        ("", [], None, ["http://localhost:8000"]),
        ("", ["Lab.example"], True, ["https://lab.example"]),
        ("https://lab.example", [], None, ["https://lab.example"]),
        ("https://Lab.example:443/", [], True, ["https://lab.example"]),
        (
            "https://lab.example:8443",
            ["old.example"],
            None,
            ["https://lab.example:8443", "https://old.example:8443"],
        ),
        ("http://lab.example:30080", [], False, ["http://lab.example:30080"]),
        ("http://[fd00::7]:30080", [], None, ["http://[fd00::7]:30080"]),
    ],
)
def test_hosts_scheme_and_origins_follow_from_one_address(
    public_url: str, hosts: list[str], https: bool | None, right: list[str]
) -> None:
    found = public_address.resolve(public_url, hosts, https, 8000)
    assert list(found.origins) == right
    assert found.is_https == right[0].startswith("https")


@pytest.mark.parametrize(
    ("public_url", "https", "words"),
    [
        ("https://lab.example", False, "contradict"),
        ("http://lab.example", True, "contradict"),
        ("lab.example", None, "is no address"),
        ("https://*.lab.example", None, "is no address"),
        ("https://lab.example/portal/", None, "is no address"),
        ("https://me@lab.example", None, "is no address"),
        ("https://lab.example:eighty", None, "is no address"),
        ("ftp://lab.example", None, "is no address"),
        ("http://[::1", None, "is no address"),
    ],
)
def test_an_address_that_cannot_be_is_refused_in_words(
    public_url: str, https: bool | None, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        public_address.resolve(public_url, [], https, 8000)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "right"),
    [
        ([], "http", "https"),  # nobody's word counts; browsers come by HTTPS
        (["127.0.0.1"], "https", "https"),
        (["127.0.0.1"], "http", "http"),
        (["10.0.0.1"], "https", "http"),  # not one of them
    ],
)
async def test_how_a_request_came_is_said_by_trusted_proxies_alone(
    settings: Any, proxies: list[str], forwarded: str, right: str
) -> None:
    settings.HTTPS, settings.TRUSTED_PROXIES = True, proxies

    async def tell(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})

    by_proxy = {"proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}
    async with serving(Doors(tell), **by_proxy) as port, aiohttp.ClientSession() as session:
        headers = {"X-Forwarded-Proto": forwarded}
        answer = await session.get(f"http://127.0.0.1:{port}/", headers=headers)
        assert await answer.text() == right


@pytest.mark.parametrize("text", ["web", "=web", "component=web!", "a/b/c=d", "component==web"])
def test_what_is_no_label_is_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no label"):
        parse_labels(text)


# --- as it is run ------------------------------------------------------------------------------


def test_the_documented_settings_are_safe() -> None:
    assert documented()["PUBLIC_URL"].startswith("https://")
    assert problems() == ""


@pytest.mark.parametrize("arguments", [["manage.py", "serve"], ["-m", "deploy.run"]])
def test_what_is_not_safe_does_not_start_and_says_what_to_set(
    tmp_path: Path, arguments: list[str]
) -> None:
    with socket.socket() as probe, socket.socket() as other:
        for one in (probe, other):
            one.bind(("127.0.0.1", 0))
        ports = [str(one.getsockname()[1]) for one in (probe, other)]
    given = {"LISTEN": "0.0.0.0", "PORT": ports[0], "POD_PORT": ports[1]}
    done = program(tmp_path / "home", *arguments, **given)
    assert done.returncode == 1
    assert "set ACCEPT_INSECURE=plain-http" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home" / "homeport.sqlite3").exists()


def test_what_programs_make_is_nobody_elses(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chmod(home, 0o755)
    done = program(home, "manage.py", "migrate", "-v0")
    assert done.returncode == 0, done.stderr
    assert "homeport.W002" in done.stderr
    readable = [path for path in home.rglob("*") if path.stat().st_mode & 0o077]
    assert readable == []
    assert (home / "homeport.sqlite3").exists()
