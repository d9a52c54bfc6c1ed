"""Tickets and cookies at a real gate: which let somebody in, and for what."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.pod.gate.world import (
    ALICE,
    BOB,
    COOKIE,
    PREFIX,
    SECRETS,
    SERVICE,
    GateProcess,
    World,
    in_world,
    serving,
    ticket,
)


@pytest.mark.parametrize("w", [{}, {"tls": True}], indirect=True, ids=["http", "https"])
async def test_a_ticket_opens_the_way_to_the_app_and_is_good_once(w: World) -> None:
    """The cookie that it is changed for is for this path only and hidden from scripts."""
    assert (await w.call("tree")).status == 401
    text = ticket()
    answer = await w.login(text)
    assert (answer.status, answer.json) == (200, {"next": PREFIX})
    morsel = answer.cookies[COOKIE]
    assert (morsel["path"], morsel["domain"], morsel["samesite"]) == (PREFIX, "", "Lax")
    assert morsel["httponly"] is True
    assert bool(morsel["secure"]) == (w.gate.scheme == "https")
    assert 0 < int(morsel["max-age"]) <= 12 * 3600
    cookie = f"{COOKIE}={morsel.value}"
    assert (await w.call("tree", cookie=cookie)).text == f"app: GET {PREFIX}tree"
    assert w.seen[0].headers["X-Forwarded-Proto"] == w.gate.scheme
    again = await w.login(text)
    assert (again.status, again.code) == (401, "ticket_used")
    assert COOKIE not in again.cookies
    assert w.portal.asked == [[ALICE]]  # a used ticket is not worth a question


async def test_only_the_first_of_many_at_once_uses_a_ticket(w: World) -> None:
    text = ticket()
    answers = await asyncio.gather(*(w.login(text) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200, *[401] * 19]


FORGED: dict[str, Any] = {
    "signed by another key": lambda: ticket("x" * 64),
    "signed by the token of the app": lambda: ticket(SECRETS["app_token"]),
    "not signed": lambda: ticket().partition(".")[0],
    "with an empty signature": lambda: ticket().partition(".")[0] + ".",
    "with another payload": lambda: ticket(sub=BOB).partition(".")[0] + "." + _signature(ticket()),
    "of another service": lambda: ticket(aud=SERVICE.replace("0123", "9999")),
    "of an earlier start": lambda: ticket(start=0),
    "of a later start": lambda: ticket(start=2),
    "expired": lambda: ticket(iat=time.time() - 61, exp=time.time() - 1),
    "that says it lives for a day": lambda: ticket(iat=time.time() - 61, exp=time.time() + 86400),
    "from the future": lambda: ticket(iat=time.time() + 3600, exp=time.time() + 3660),
    "older than the gate": lambda: ticket(iat=time.time() - 50, exp=time.time() + 10),
    "without an identity": lambda: ticket(jti=""),
    "with a date that is no number": lambda: ticket(exp="never"),
    "with an endless date": lambda: ticket(exp=float("inf")),
    "that is a list": lambda: ticket(aud=None),
    "empty": lambda: "",
    "too long": lambda: ticket(x="x" * 4096),
    "of other letters": lambda: "é.☃",
    "of dots": lambda: "....",
    "of control characters": lambda: "\0.\0",
}


def _signature(text: str) -> str:
    return text.partition(".")[2]


async def test_no_other_ticket_lets_anybody_in(w: World) -> None:
    for what, make in FORGED.items():
        answer = await w.login(make())
        assert answer.status == 401, what
        assert COOKIE not in answer.cookies, what
        said = answer.json
        assert "Open the notebook again from Homeport." in said["message"], what
    assert (await w.call("tree")).status == 401
    assert w.seen == []


async def test_no_made_up_cookie_lets_anybody_in(w: World) -> None:
    good = (await w.cookie()).partition("=")[2]
    payload, _, signature = good.partition(".")
    other = "BA" if signature.endswith("AA") else "AA"
    values = [
        "",
        "x",
        payload,
        f"{payload}.",
        f".{signature}",
        f"{payload}.{signature[:-2]}{other}",
        f"{payload[:-2]}AA.{signature}",
        f"{good}x",
        ticket(),  # signed by the same service, but no cookie
        "é",
    ]
    for value in values:
        answer = await w.call("tree", cookie=f"{COOKIE}={value}")
        assert answer.status == 401, value
    for name in ("gate_99999999", "gate_", COOKIE.upper(), "homeport_session"):
        assert (await w.call("tree", cookie=f"{name}={good}")).status == 401, name
    assert w.seen == []
    # What a page of another port may have added does not hide the good one.
    many = "; ".join(f"{COOKIE}=x{n}" for n in range(5))
    assert (await w.call("tree", cookie=f"{many}; {COOKIE}={good}")).status == 200


async def test_a_port_that_another_service_got_refuses_the_old_cookie(w: World) -> None:
    """The same key on purpose: service and start are in what is signed, not only in the key."""
    old = await w.cookie()
    assert await w.gate.stop() == 0
    other = {"GATE_SERVICE_ID": SERVICE.replace("0000", "1111"), "GATE_START": "1"}
    for changes in (other, {"GATE_START": "2"}):
        before = dict(w.gate.environ)
        w.gate.environ.update(changes)
        await w.gate.start()
        assert (await w.call("tree", cookie=old)).status == 401
        await w.gate.stop()
        w.gate.environ = before
    # Another service has another path, too.
    w.gate.environ["GATE_PREFIX"] = "/s/99999999/"
    await w.gate.start()
    assert (await w.call("tree", cookie=old)).status == 404
    assert w.seen == []


async def test_a_restarted_gate_takes_cookies_but_no_tickets_of_before(w: World) -> None:
    cookie, unused = await w.cookie(), ticket()
    w.gate.kill()
    await w.gate.start()
    assert (await w.call("tree", cookie=cookie)).status == 200
    assert w.portal.asked == [[ALICE], [ALICE]]  # whoever is not known is asked about
    answer = await w.login(unused)
    assert (answer.status, answer.code) == (401, "ticket_expired")
    assert (await w.login()).status == 200


@pytest.mark.parametrize("ahead_s", [-7200.0, 7200.0])
async def test_tickets_are_measured_by_the_clock_of_the_portal(w: World, ahead_s: float) -> None:
    w.portal.ahead_s = ahead_s
    now = time.time() + ahead_s
    assert (await w.login(ticket(iat=now, exp=now + 60))).status == 200
    assert (await w.login(ticket())).status == 401  # by our own clock


async def test_any_name_of_the_node_leads_in(w: World) -> None:
    """The gate cannot know how browsers reach it: names, addresses, translated ports."""
    for host in ("node7.lab", "node7.lab:31000", "10.0.0.7:80", "[2001:db8::7]:31000"):
        answer = await w.login(Host=host, Origin=f"http://{host}")
        assert answer.status == 200, host
        cookie = f"{COOKIE}={answer.cookies[COOKIE].value}"
        given = {"Host": host, "Origin": f"http://{host}"}
        answer = await w.call("api", method="POST", cookie=cookie, headers=given)
        assert answer.status == 200, host
        assert w.seen[-1].headers["Host"] == host


async def test_the_ticket_page_reads_the_fragment_and_is_locked_down(w: World) -> None:
    for method in ("GET", "HEAD"):
        answer = await w.call("__gate", method=method)
        assert answer.status == 200
    answer = await w.call("__gate")
    text, policy = answer.text, answer.headers["Content-Security-Policy"]
    assert "location.hash" in text
    assert "needs JavaScript" in text
    assert "unsafe" not in policy
    assert re.search(r"script-src 'sha256-[^']+';", policy)
    for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_refusals_are_pages_for_people_and_json_for_programs(w: World) -> None:
    page = await w.call("lab", headers={"Accept": "text/html,*/*"})
    assert page.headers["Content-Type"].partition(";")[0] == "text/html"
    assert "Open this notebook from Homeport" in page.text
    said = await w.call("api/kernels")
    assert said.code == "not_let_in"
    fetched = await w.call("lab", headers={"Accept": "text/html", "Sec-Fetch-Mode": "cors"})
    assert fetched.headers["Content-Type"].partition(";")[0] == "application/json"


async def test_what_is_outside_of_the_prefix_is_not_there(w: World, cookie: str) -> None:
    outside = ("/", "/lab", "/s/", "/s/0123abcdx/", "/s/9999abcd/", "//s/0123abcd/", "/__gate/")
    for path in outside:
        for given in ("", cookie):
            answer = await w.call(path, cookie=given)
            assert answer.status == 404, path
            assert "Homeport" in answer.text
    for own in ("__gate/", "__gate/x", "__gate/login"):
        assert (await w.call(own, cookie=cookie)).status == 404
    answer = await w.call(PREFIX.rstrip("/"))
    assert (answer.status, answer.headers["Location"]) == (308, PREFIX)
    assert w.seen == []


@in_world(app=False)
async def test_probes_need_no_cookie_tell_no_secret_and_say_when_the_app_answers(w: World) -> None:
    live, ready = await w.call("/__gate/live"), await w.call("/__gate/ready")
    assert (live.status, ready.status) == (200, 503)
    for answer in (live, ready):
        said = f"{answer.headers} {answer.text}"
        assert not [text for text in (SERVICE, *SECRETS.values()) if text in said]
    async with serving(w.on_app, w.app_port):
        while (await w.call("/__gate/ready")).status != 200:
            await asyncio.sleep(0.1)


async def test_no_secret_is_in_the_log(w: World) -> None:
    text = ticket()
    answer = await w.login(text)
    await w.login(text)
    await w.call("tree?token=abc", cookie=f"{COOKIE}={answer.cookies[COOKIE].value}")
    await w.gate.stop()
    said = w.gate.said()
    assert ALICE in said
    secrets = [*SECRETS.values(), text, answer.cookies[COOKIE].value, "token=abc"]
    assert not [secret for secret in secrets if secret in said]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"GATE_START": "one"}, "GATE_START"),
        ({"GATE_KIND": "shell"}, "GATE_KIND"),
        ({"GATE_PREFIX": "s"}, "GATE_PREFIX"),
        ({"GATE_SERVICE_ID": ""}, "GATE_SERVICE_ID"),
        ({"GATE_SECRETS": "/nowhere"}, "portal_token"),
        ({}, "ticket_key is empty"),
    ],
)
def test_a_wrong_configuration_ends_it_in_words(
    changes: dict[str, str], words: str, tmp_path: Path
) -> None:
    gate = GateProcess(tmp_path, "http://127.0.0.1:1", 1, **changes)
    if not changes:
        (tmp_path / "ticket_key").write_text("\n")
    assert gate.run().wait(20) == 64
    assert words in gate.said()
