"""The audit trail: reading, searching, the CSV file, refusals, and that nothing changes a row."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from tenants.audit.describe import KINDS, describe, detail_lines, unsaid_lines
from tenants.audit.export import audit_chunks
from tenants.models import AuditEntry, User
from tests.factories import make_tenant
from tests.tenants.people.people import codes, rest, send

pytestmark = pytest.mark.django_db


def entry(**changes: Any) -> AuditEntry:
    fields: dict[str, Any] = {
        "actor_name": "ada",
        "verb": "stop",
        "kind": "job",
        "object_id": "1",
        "object_name": "mnist",
        "source_address": "192.0.2.1",
        **changes,
    }
    made: AuditEntry = AuditEntry.objects.create(**fields)
    return made


def found(client: Client, query: str = "") -> list[str]:
    """Names of the objects that the CSV file has, by the same search as page and REST."""
    answer = client.get(f"/admin/audit/csv/{query}")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[arg-type]
    return [row["object"] for row in csv.DictReader(io.StringIO(text))]


def test_page_and_rest_say_what_was_done_with_before_and_after(page: Client, root: User) -> None:
    entry(verb="quota", kind="tenant", detail={"before": {"gpu": 2}, "after": {"gpu": 4}})
    markup = {"object_name": "<script>alert(1)</script>", "detail": {"<b>": "<i>"}}
    entry(result="refused", verb="try", kind="address", **markup)
    text = page.get("/admin/audit/").content.decode()
    assert "changed the quota of" in text
    assert "GPU: 2 → 4" in text
    assert "Refused" in text
    assert "192.0.2.1" in text
    assert "<script>alert" not in text
    assert "<i>" not in text
    [row] = send(rest(root), "GET", "audit/?q=mnist").json()["results"]
    assert (row["who"], row["verb"], row["object_name"]) == ("ada", "quota", "mnist")
    assert (row["result"], row["detail"]["before"]) == ("done", {"gpu": 2})


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?q=mni", ["mnist"]),
        ("?q=ADA+stop+mni", ["mnist"]),
        ("?q=192.0.2.8", ["resnet"]),
        ("?person=lin", ["resnet"]),
        ("?verb=submit", ["resnet"]),
        ("?kind=team", ["vision"]),
        ("?result=refused", ["vision"]),
        ("?since=2026-11-02&until=2026-11-02", ["resnet"]),
        ("?since=2026-11-02", ["vision", "resnet"]),
        ("?until=2026-11-01", ["mnist"]),
        ("?q=nothing", []),
        ("?q=%00&result=x&until=9999-12-31", ["vision", "resnet", "mnist"]),
    ],
)
def test_rows_are_found(page: Client, query: str, names: list[str]) -> None:
    day = datetime(2026, 11, 1, 23, 59, 59, tzinfo=UTC)
    entry(at=day)
    entry(
        at=day + timedelta(seconds=1),
        actor_name="lin",
        verb="submit",
        object_name="resnet",
        source_address="192.0.2.8",
    )
    entry(
        at=day + timedelta(days=1, seconds=1), kind="team", object_name="vision", result="refused"
    )
    assert found(page, query) == names
    shown = page.get(f"/admin/audit/{query}").content.decode()
    assert all(f">{name}</b>" in shown for name in names)


def test_a_day_that_is_none_is_told(page: Client, root: User) -> None:
    assert "Not a valid date" in page.get("/admin/audit/?since=yesterday").content.decode()
    answer = send(rest(root), "GET", "audit/?until=2026-13-01")
    assert (answer.status_code, codes(answer)) == (400, {("until", "invalid")})


@pytest.mark.parametrize("text", ['=HYPERLINK("http://evil.example")', "+1", "-1", "@x", "\t=1"])
def test_a_spreadsheet_runs_nothing_of_it(page: Client, text: str) -> None:
    entry(object_name=text, actor_name=text, detail={text: text})
    answer = page.get("/admin/audit/csv/")
    lines = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[arg-type]
    for row in csv.reader(io.StringIO(lines)):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row), row
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith("attachment; filename=")


def test_a_long_trail_is_read_in_pieces() -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(actor_name="ada", verb="stop", kind="job", object_name=f"job {number}")
        for number in range(1200)
    )
    chunks = list(audit_chunks(AuditEntry.objects.order_by("-at", "-pk")))
    assert len(chunks) > 2
    text = b"".join(chunks).decode("utf-8-sig")
    assert len(list(csv.DictReader(io.StringIO(text)))) == 1200


def test_a_row_is_never_changed_nor_removed() -> None:
    made = entry()
    made.object_name = "another"
    with pytest.raises(TypeError, match="only ever added"):
        made.save()
    with pytest.raises(TypeError, match="only ever added"):
        made.delete()
    with pytest.raises(TypeError, match="only ever added"):
        AuditEntry.objects.all().delete()
    with pytest.raises(TypeError, match="only ever added"):
        AuditEntry.objects.filter(pk=made.pk).update(verb="x")
    assert AuditEntry.objects.get().object_name == "mnist"


def test_what_somebody_may_not_is_written_down_once() -> None:
    alice = make_tenant("alice").owner
    client = rest(alice)
    browser = Client(HTTP_HOST="localhost", REMOTE_ADDR="192.0.2.3")
    browser.force_login(alice)
    for _ in range(3):
        send(client, "POST", "users/", {"username": "x"})
        browser.post("/admin/people/invite/", {"username": "x"})
        # Who has not signed in fills no rows.
        Client(HTTP_HOST="localhost").post("/admin/people/invite/", {"username": "x"})
        send(Client(HTTP_HOST="localhost"), "POST", "users/", {"username": "x"})
    rows = AuditEntry.objects.filter(result="refused")
    assert [(row.actor_name, row.verb, row.object_name) for row in rows] == [
        ("alice", "try", "POST /admin/people/invite/"),
        ("alice", "try", "POST /api/v1/users/"),
    ]
    assert rows[0].source_address == "192.0.2.3"


@pytest.mark.parametrize(
    ("detail", "lines"),
    [
        ({}, []),
        ({"why": "x"}, ["why: x"]),
        ({"before": {"gpu": 2}, "after": {"gpu": None}}, ["GPU: 2 → none"]),
        (
            {"before": {"nodeports": "4"}, "after": {"nodeports": "6"}},
            ["Notebooks and TensorBoards: 4 → 6"],
        ),
        ({"budget cpu": "4"}, ["budget CPU: 4"]),
        ({"before": {}, "after": {"team_name": "a"}}, ["team name: none → a"]),
        ({"before": "text"}, ["before: text"]),
        ({"ended": {"sessions": 1, "tokens": 0}}, ["ended: sessions 1, tokens 0"]),
        ({"a": [1, True, ""]}, ["a: 1, yes, none"]),
    ],
)
def test_details_in_words(detail: dict[str, Any], lines: list[str]) -> None:
    assert detail_lines(detail) == lines


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ("stopped", "training", "mnist")),
        ({"verb": "sign-in", "kind": "user", "object_name": "ada"}, ("signed in", "", "")),
        (
            {"actor_name": "x", "verb": "sign-in", "kind": "user", "result": "refused"},
            ("failed to sign in as", "person", "mnist"),
        ),
        ({"verb": "sign-in", "object_name": "?"}, ("failed to sign in", "", "")),
        ({"verb": "unheard-of", "kind": "thing"}, ("unheard-of", "thing", "mnist")),
        # What older versions recorded does not tell which of these it was.
        ({"kind": "service"}, ("stopped", str(KINDS["service"]), "mnist")),
        *(
            (
                {"verb": "create", "kind": "service", "detail": {"kind": key}},
                ("created", word, "mnist"),
            )
            for key, word in (("notebook", "notebook"), ("tensorboard", "TensorBoard"))
        ),
    ],
)
def test_an_entry_is_said_in_words(changes: dict[str, Any], words: tuple[str, str, str]) -> None:
    said = describe(entry(**changes))
    assert (said.verb, said.kind, said.name) == words


def test_what_is_served_is_called_by_all_its_kinds() -> None:
    assert str(KINDS["service"]).startswith("notebook")
    assert "TensorBoard" in str(KINDS["service"])


def test_what_the_sentence_says_is_not_said_twice() -> None:
    row = entry(kind="service", detail={"kind": "notebook", "why": "it hangs"})
    assert (describe(row).kind, unsaid_lines(row)) == ("notebook", ["why: it hangs"])
