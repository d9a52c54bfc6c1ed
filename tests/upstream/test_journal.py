"""Reading an audit log: what counts as made, and how often."""

import json
from pathlib import Path
from typing import Any

from portal.cluster import labels
from tests.upstream.journal import Journal

OURS = "u-ada"
SOMEBODY = {"username": "somebody"}


def event(resource: str, name: str = "", *, code: int = 201, **more: Any) -> dict[str, Any]:
    about = {"resource": resource, "namespace": OURS} | ({"name": name} if name else {})
    return {
        "verb": "create",
        "user": {"username": "us"},
        "requestURI": "/api",
        "objectRef": about,
        "responseStatus": {"code": code},
        **more,
    }


def pod(owner: str, index: str) -> dict[str, Any]:
    marks = {labels.OWNER: owner, labels.ROLE: "worker", labels.COMPLETION_INDEX: index}
    meta = {"generateName": "x-", "labels": marks, "ownerReferences": [{"kind": "Job"}]}
    return event("pods", requestObject={"metadata": meta}, user=SOMEBODY)


def write(path: Path, *events: dict[str, Any]) -> None:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))


def test_what_is_made_twice_counts_twice_and_what_is_refused_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "audit-2026-11-20.log", event("jobs", "a"), pod("one", "0"))
    write(
        tmp_path / "audit.log",
        event("jobs", "a"),
        event("jobs", "b", code=409),
        event("jobs", "c", requestURI="/api?dryRun=All"),
        event("jobs", "d", user=SOMEBODY),
        event("endpointslices", user=SOMEBODY),
        event("jobs", "e") | {"objectRef": {"resource": "jobs", "namespace": "u-bob"}},
        pod("one", "0"),
        pod("one", "1"),
    )
    journal = Journal(tmp_path / "audit.log")
    assert journal.made("us", OURS, 0) == {
        "jobs/a": 2,
        "pod of one: worker-0": 2,
        "pod of one: worker-1": 1,
    }
    assert journal.made("us", OURS, 9) == {"pod of one: worker-1": 1}
    assert len(journal) == 10


def test_answers_are_counted_for_one_user(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    refused = [event("jobs", code=429), event("jobs", code=429, user=SOMEBODY)]
    write(log, *refused, event("jobs"))
    log.write_text(log.read_text() + '{"half": ')
    assert Journal(log).answered("us", 429, 0) == {"create": 1}


def test_half_a_line_of_a_server_that_was_stopped_hides_no_other(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    write(log, event("jobs", "a"))
    with log.open("a") as lines:
        lines.write('{"verb": "cre')
        lines.write(f"{json.dumps(event('jobs', 'b'))}\n{json.dumps(event('jobs', 'c'))}\n")
    assert Journal(log).made("us", OURS, 0) == {"jobs/a": 1, "jobs/c": 1}
