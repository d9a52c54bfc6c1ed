"""Moments that the cluster has forgotten: 410, and the ways on from there."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.contract.bodies import config_map
from tests.contract.kube import MERGE, Json
from tests.contract.script import script
from tests.contract.tape import Tape

PATIENCE_S = 60.0
CHANGES = 700  # between two looks; onebox remembers 2,000 of one kind, upstream some seconds


def _until_forgotten(tape: Tape, path: str, is_forgotten: Callable[[], bool]) -> None:
    """Write until a moment of the past is gone: while nothing is written, none is forgotten."""
    deadline_s = time.monotonic() + PATIENCE_S
    number = 0
    while not is_forgotten():
        if time.monotonic() > deadline_s:
            pytest.skip(f"this cluster forgets nothing within {PATIENCE_S:.0f} s")
        for _ in range(CHANGES):
            number += 1
            change = {"metadata": {"annotations": {"n": str(number)}}}
            tape.kube.must("PATCH", path, change, kind=MERGE)
    # What is left of it is not part of what is compared.
    tape.kube.must("PATCH", path, {"metadata": {"annotations": None}}, kind=MERGE)


def _data(obj: Json) -> Json:
    if "items" in obj:
        shown = {key: obj["metadata"][key] for key in ("continue",) if key in obj["metadata"]}
        return {**shown, "names": [item["metadata"]["name"] for item in obj["items"]]}
    return obj


@script
def a_page_of_a_forgotten_moment_is_answered_with_410_and_a_way_on(tape: Tape) -> None:
    path = tape.path("configmaps")
    for name in "abc":
        tape.kube.must("POST", path, config_map(name))
    first = tape.get(tape.path("configmaps", limit=1), show=_data).body["metadata"]["continue"]
    again = tape.path("configmaps", **{"limit": 1, "continue": first})
    one = tape.path("configmaps", "a")
    _until_forgotten(tape, one, lambda: tape.kube.send("GET", again).code == 410)
    reply = tape.get(again)
    onward = reply.body["metadata"]["continue"]
    tape.get(tape.path("configmaps", **{"continue": onward}), show=_data)


def _event(name: str, namespace: str) -> Json:
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    return {
        "metadata": {"name": name},
        "involvedObject": about,
        "type": "Normal",
        "reason": "Tried",
        "message": name,
    }


@script
def a_watch_from_a_forgotten_moment_is_answered_with_410_and_begins_anew(tape: Tape) -> None:
    # Upstream keeps no events in memory: a watch of them reads what is not compacted.
    path = tape.path("events")
    made = tape.kube.must("POST", path, _event("first", tape.ns))
    past: Json = {"resourceVersion": made["metadata"]["resourceVersion"]}

    def is_forgotten() -> bool:
        with tape.watch(path, timeoutSeconds=1, **past) as stream:
            return any(event["type"] == "ERROR" for event in stream.rest()[:1])

    with tape.watch(path, timeoutSeconds=1, fieldSelector="reason=Tried", **past) as stream:
        tape.events("from a moment that is remembered", stream.rest())
    _until_forgotten(tape, tape.path("events", "first"), is_forgotten)
    with tape.watch(path, **past) as stream:
        tape.note("code", stream.code)
        tape.events("from a forgotten moment", stream.rest())
    tape.get(tape.path("events", resourceVersionMatch="Exact", **past))
    now = tape.kube.get(path).version
    tape.kube.must("POST", path, _event("second", tape.ns))
    with tape.watch(path, resourceVersion=now) as stream:
        tape.events("from a new list", [stream.next()])
