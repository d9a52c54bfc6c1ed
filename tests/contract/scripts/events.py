"""Events: made by clients, counted, seen through both APIs."""

from __future__ import annotations

from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape

NEW = "events.k8s.io/v1"


def _event(tape: Tape, name: str = "e", **fields: object) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": tape.ns}
    return {
        "metadata": {"name": name, "namespace": tape.ns},
        "involvedObject": about,
        "reason": "Tested",
        "message": "a message",
        "type": "Normal",
        "source": {"component": "contract"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        **fields,
    }


@script
def an_event_is_made_and_counted(tape: Tape) -> None:
    tape.post(tape.path("events"), _event(tape))
    patch = {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}
    tape.merge(tape.path("events", "e"), patch)
    tape.get(tape.path("events", fieldSelector="involvedObject.name=p,type=Normal"))
    tape.get(tape.path("events", fieldSelector="reason=Other"))


@script
def events_are_the_same_in_both_groups(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("events"), _event(tape))
    tape.get(tape.path("events", "e", group=NEW))
    tape.get(tape.path("events", group=NEW, fieldSelector="regarding.name=p"))
    body = {
        "metadata": {"name": "n", "namespace": tape.ns},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/contract",
        "reportingInstance": "one",
        "action": "Testing",
        "reason": "Tested",
        "regarding": {"kind": "Pod", "name": "p", "namespace": tape.ns},
        "note": "a note",
        "type": "Normal",
    }
    tape.post(tape.path("events", group=NEW), body)
    tape.get(tape.path("events", "n"))


@script
def an_event_about_another_namespace_is_refused(tape: Tape) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    tape.post(tape.path("events"), _event(tape, involvedObject=about))
    tape.post(tape.path("events"), _event(tape, type="Loud"))
