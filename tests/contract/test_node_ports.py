"""The end of the range of NodePorts, which a portal with many notebooks reaches."""

from __future__ import annotations

import re

import pytest

from tests.contract.bodies import service
from tests.contract.conftest import Plays
from tests.contract.kube import Json
from tests.contract.tape import Tape

MOST_PORTS = 5000
AT_ONCE = 250


def _range(tape: Tape) -> tuple[int, int]:
    """First and last port, as the refusal of a port outside says."""
    body = service("probe", type="NodePort", ports=[{"port": 80, "nodePort": 99}])
    message = tape.kube.send("POST", tape.path("services"), body).body["message"]
    found = re.search(r"valid ports is (\d+)-(\d+)", message)
    assert found, message
    return int(found[1]), int(found[2])


def _many(name: str, count: int) -> Json:
    ports = [{"name": f"p{number}", "port": number} for number in range(1, count + 1)]
    return service(name, type="NodePort", ports=ports)


def _fill(tape: Tape) -> None:
    """Take every port that is free."""
    count, number = AT_ONCE, 0
    while count:
        number += 1
        reply = tape.kube.send("POST", tape.path("services"), _many(f"fill-{number}", count))
        if reply.code != 201:
            assert reply.code == 500, reply.body
            count //= 2


def test_a_service_without_a_free_node_port_is_refused_and_taken_later(
    tape: Tape, plays: Plays
) -> None:
    plays.wait()  # other scripts need ports of their own
    first, last = _range(tape)
    if last - first > MOST_PORTS:
        pytest.skip(f"there are {last - first + 1} ports to take")
    _fill(tape)

    refused = tape.kube.send("POST", tape.path("services"), service("late", type="NodePort"))

    assert refused.code == 500
    assert refused.body["reason"] == "InternalError"
    assert refused.body["message"] == (
        "Internal error occurred: failed to allocate a nodePort: range is full"
    )
    assert tape.kube.send("POST", tape.path("services"), service("inner")).code == 201
    tape.kube.must("DELETE", tape.path("services", "fill-1"))
    tape.kube.until_gone(tape.path("services", "fill-1"))
    assert (
        tape.kube.send("POST", tape.path("services"), service("late", type="NodePort")).code == 201
    )
