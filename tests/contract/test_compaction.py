"""What a cluster says when it has forgotten the moment that a client asks for."""

from __future__ import annotations

import time

import pytest

from tests.contract.bodies import config_map
from tests.contract.clusters import Cluster
from tests.contract.kube import MERGE, Reply
from tests.contract.tape import Tape

PATIENCE_S = 25.0
CHANGES = 2_100  # more than onebox remembers of one kind


def _forgotten(tape: Tape, cluster: Cluster, token: str) -> Reply:
    """Wait until the page of a token is too old."""
    path = tape.path("configmaps")
    if cluster.side == "onebox":
        for number in range(CHANGES):
            body = {"data": {"a": str(number)}}
            tape.kube.must("PATCH", tape.path("configmaps", "a"), body, kind=MERGE)
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        # Upstream moves the moment that it keeps only while something is written.
        tape.kube.must(
            "PATCH", tape.path("configmaps", "a"), {"data": {"n": str(time.time())}}, kind=MERGE
        )
        reply = tape.kube.send("GET", f"{path}?limit=1&continue={token}")
        if reply.code != 200:
            return reply
        time.sleep(0.5)
    pytest.skip(f"this cluster compacts less often than every {PATIENCE_S:.0f} s")


def test_a_page_of_a_forgotten_moment_is_answered_with_410_and_a_way_on(
    tape: Tape, cluster: Cluster
) -> None:
    for name in "abc":
        tape.kube.must("POST", tape.path("configmaps"), config_map(name))
    first = tape.kube.get(tape.path("configmaps"), limit=1).body

    reply = _forgotten(tape, cluster, first["metadata"]["continue"])

    assert reply.code == 410
    assert reply.body["reason"] == "Expired"
    assert reply.body["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter"
    )
    onward = tape.kube.get(
        tape.path("configmaps"), **{"continue": reply.body["metadata"]["continue"]}
    )
    assert onward.code == 200
    names = [item["metadata"]["name"] for item in onward.body["items"]]
    assert names == ["b", "c", "kube-root-ca.crt"]
