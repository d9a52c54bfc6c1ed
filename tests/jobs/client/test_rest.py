"""Speaking with a portal that is busy, gone, old, hostile, or says no."""

import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from homeport_client.exits import NOT_FOUND, REFUSED, UNREACHABLE, ClientError, UnreachableError
from homeport_client.rest import TRIES, Rest
from tests.jobs.client.world import (
    Answer,
    CommandLine,
    QuietServer,
    Scripted,
    handler_of,
    listed,
    refusal,
)
from tests.tools.authority import Authority

BUSY = refusal(503, "throttled", "busy")


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def rest(portal: Scripted, slept: list[float]) -> Rest:
    return Rest(portal.url, "hp_token", sleep=slept.append)


def test_who_asks_says_so_by_a_header_only(portal: Scripted, rest: Rest) -> None:
    portal.answers["GET me/"] = {"username": "ada"}
    assert rest.get("me/") == {"username": "ada"}
    (asked,) = portal.asked
    assert asked.headers["Authorization"] == "Token hp_token"
    assert "hp_token" not in asked.path
    assert asked.headers["User-Agent"].startswith("homeport/")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_portal_is_asked_again_and_again_with_growing_pauses(
    portal: Scripted, rest: Rest, slept: list[float], status: int
) -> None:
    busy = refusal(status, "throttled", "busy")
    portal.answers["POST jobs/"] = [busy, busy, busy, {"id": "1"}]
    assert rest.post("jobs/", {"name": "x"}) == {"id": "1"}
    assert len(portal.asked) == 4
    assert [asked.json for asked in portal.asked] == [{"name": "x"}] * 4
    assert len(slept) == 3
    assert slept == sorted(slept)


def test_a_busy_portal_may_say_how_long_to_wait(
    portal: Scripted, rest: Rest, slept: list[float]
) -> None:
    busy = refusal(429, "throttled", "busy")
    busy.headers["Retry-After"] = "7"
    portal.answers["GET jobs/"] = [busy, listed()]
    assert rest.get("jobs/") == listed()
    assert slept == [7.0]
    busy.headers["Retry-After"] = "3600"
    portal.answers["GET jobs/"] = [busy]
    with pytest.raises(ClientError, match="busy") as caught:
        rest.get("jobs/")
    assert caught.value.code == REFUSED
    assert slept == [7.0], "nobody waits an hour at a terminal"


def test_patience_ends(portal: Scripted, rest: Rest) -> None:
    portal.answers["GET jobs/"] = BUSY
    with pytest.raises(UnreachableError) as caught:
        rest.get("jobs/")
    assert caught.value.code == UNREACHABLE
    assert len(portal.asked) == TRIES


def test_a_portal_that_is_not_there(slept: list[float]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    rest = Rest(f"http://127.0.0.1:{port}", sleep=slept.append)
    with pytest.raises(UnreachableError, match="cannot be reached") as caught:
        rest.post("jobs/", {})
    assert "refused" in caught.value.text
    assert "object at 0x" not in caught.value.text
    assert not caught.value.may_have_happened
    assert len(slept) == 2, "a refused connection is tried a few times"


def test_a_submit_whose_answer_was_lost_is_not_sent_twice(portal: Scripted, rest: Rest) -> None:
    """Nobody knows whether it happened."""

    def hang_up(asked: Any) -> Any:
        raise ConnectionError

    portal.answers.update({"POST jobs/": hang_up, "GET jobs/": hang_up})
    with pytest.raises(UnreachableError) as caught:
        rest.post("jobs/", {})
    assert caught.value.may_have_happened
    assert len(portal.asked) == 1
    with pytest.raises(UnreachableError):
        rest.get("jobs/")
    assert len(portal.asked) == 4, "looking does no harm, so it is tried again"


def hang_up(asked: Any) -> Any:
    raise ConnectionError


KEYS = Answer({}, headers={"Homeport-Features": "idempotency-key"})


def test_a_submit_with_a_key_is_sent_until_its_answer_comes(portal: Scripted, rest: Rest) -> None:
    portal.answers["GET me/"] = KEYS
    busy = refusal(409, "in_progress", "The first one is still worked on.")
    busy.headers["Retry-After"] = "1"
    portal.answers["POST jobs/"] = [hang_up, busy, {"id": "1"}]
    assert rest.post_once("jobs/", {"name": "x"}) == {"id": "1"}
    assert portal.paths() == ["POST jobs/", "GET me/", "POST jobs/", "POST jobs/"]
    keys = [asked.headers["Idempotency-Key"] for asked in portal.asked if asked.method == "POST"]
    assert len(set(keys)) == 1
    assert rest.post_once("jobs/", {"name": "x"}) == {"id": "1"}
    assert portal.asked[-1].headers["Idempotency-Key"] != keys[0], "another submit is another one"
    portal.answers["POST jobs/"] = hang_up
    portal.asked.clear()
    with pytest.raises(UnreachableError) as caught:
        rest.post_once("jobs/", {})
    assert caught.value.may_have_happened, "nobody knows, when patience ends"
    assert portal.paths().count("POST jobs/") == 1, "an answer without the header came before"


@pytest.mark.parametrize(
    ("before", "after", "posts"),
    [
        (None, KEYS, 3),
        (KEYS, KEYS, 3),
        (Answer({}), KEYS, 1),  # the older one may have done it
        (KEYS, Answer({}), 1),  # rolled back
        (None, refusal(401, "not_authenticated", "no"), 1),
        (None, refusal(503, "busy", "busy"), 1),
        (KEYS, hang_up, 1),
    ],
)
def test_a_key_is_sent_again_only_to_a_portal_that_knows_keys(
    portal: Scripted, rest: Rest, before: Any, after: Any, posts: int
) -> None:
    portal.answers.update({"GET queue/": before, "GET me/": after, "POST jobs/": hang_up})
    if before is not None:
        rest.get("queue/")
    with pytest.raises(UnreachableError) as caught:
        rest.post_once("jobs/", {})
    assert caught.value.may_have_happened
    assert portal.paths().count("POST jobs/") == posts


CODES = {400: 5, 401: 3, 403: 5, 404: 4, 409: 5, 413: 5, 500: 1}


@pytest.mark.parametrize(("status", "code"), CODES.items())
def test_a_refusal_is_told_in_the_portals_words(
    portal: Scripted, rest: Rest, status: int, code: int
) -> None:
    portal.answers["GET jobs/"] = refusal(status, "some_code", "No, because.", "field.name")
    with pytest.raises(ClientError) as caught:
        rest.get("jobs/")
    assert "No, because." in caught.value.text
    assert caught.value.code == code
    assert [r.field for r in caught.value.refusals] == ["field.name"]


HOSTILE = [
    *(Answer(data=data) for data in (b"", b"\xff\xfe\x00", b"[" * 200_000, b"null", b"3", b"[]")),
    Answer(data=b"<html>Sign in to the hotel's network</html>"),
    Answer(data=b'{"results": 3}'),
    Answer(data=b'{"results": [1, 2]}'),
    *(Answer({}, status) for status in (404, 418)),
    *(Answer({"errors": errors}, 400) for errors in ("no", [1, None, {"text": None}])),
    Answer([], 500),
    Answer("text", 400),
    Answer({}, 301, {"Location": "http://evil.example/"}),
    Answer({}, 302, {"Location": "/sign-in/\x1b[31m"}),
    Answer(data=b'{"results": [], "count":', cut=10),
]


def identity(answer: Answer) -> str:
    return str(answer.data or answer.body)[:30] + str(answer.status)


@pytest.mark.parametrize("answer", HOSTILE, ids=identity)
@pytest.mark.parametrize("command", ["list", "top node", "get x"])
def test_any_answer_ends_in_words(homeport: CommandLine, answer: Answer, command: str) -> None:
    for path in ("jobs/", "queue/", "nodes/", "notebooks/"):
        homeport.answers[f"GET {path}"] = answer
    ran = homeport(*command.split())
    assert ran.code in {1, NOT_FOUND, REFUSED, UNREACHABLE}
    assert ran.err.startswith("error: ")
    assert "fault" not in ran.err, ran.err
    assert "\x1b" not in ran.err
    assert ran.out == ""


def test_a_redirect_takes_no_token_along(portal: Scripted, rest: Rest) -> None:
    portal.answers["GET me/"] = Answer({}, 301, {"Location": f"{portal.url}/elsewhere"})
    with pytest.raises(ClientError, match="sends you elsewhere"):
        rest.get("me/")
    assert len(portal.asked) == 1


def test_a_list_is_read_page_by_page(portal: Scripted, rest: Rest) -> None:
    def page(asked: Any) -> Any:
        number = int(asked.path.partition("page=")[2].partition("&")[0])
        rows = [{"id": str(at)} for at in range((number - 1) * 200, min(450, number * 200))]
        return {"count": 450, "results": rows}

    portal.answers["GET jobs/"] = page
    assert [row["id"] for row in rest.every("jobs/")] == [str(at) for at in range(450)]
    assert len(portal.asked) == 3


def test_a_list_without_end_ends(portal: Scripted, rest: Rest) -> None:
    portal.answers["GET jobs/"] = [
        {"count": 10**9, "results": [{"id": "1"}] * 200},
        {"count": 10**9, "results": []},
    ]
    assert len(list(rest.every("jobs/"))) == 200


# --- certificates ---


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "ca")


@pytest.fixture
def certificate(authority: Authority) -> Path:
    return authority.folder / "ca.crt"


@pytest.fixture
def tls_portal(portal: Scripted, authority: Authority) -> Any:
    """The scripted portal behind a certificate of an authority that nobody knows."""
    server = QuietServer(("127.0.0.1", 0), handler_of(portal))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.pair("portal"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_own_certificate_is_trusted_by_flag_and_by_environment(
    tls_portal: str, certificate: Path, homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    homeport.answers["GET jobs/"] = listed()
    homeport.sign_in(tls_portal)
    ran = homeport("list")
    assert ran.code == UNREACHABLE
    assert "not trusted" in ran.err
    assert "--ca-file" in ran.err
    assert not homeport.asked, "no token was sent"

    assert homeport("list", "--ca-file", str(certificate)).code == 0
    assert homeport("--ca-file", str(certificate), "list").code == 0
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert homeport("list").code == 0
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("HOMEPORT_CA_FILE", str(certificate))
    assert homeport("list").code == 0


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_without_certificates_is_named(
    homeport: CommandLine, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    ran = homeport("list", "--ca-file", str(path))
    assert ran.code == 1
    assert "ca.pem cannot be used" in ran.err
