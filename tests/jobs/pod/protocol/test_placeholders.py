"""What a replica gets, by a table that people can read."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.pod.protocol import placeholders
from jobs.pod.protocol.placeholders import ReplicaContext

CASES = json.loads(Path(__file__).with_name("placeholder_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_what_a_replica_gets(case: dict[str, Any]) -> None:
    given = dict(case["given"])
    command, flags, env = given.pop("command"), given.pop("flags"), given.pop("env")
    of_topology = given.pop("given")
    context = ReplicaContext(**given)
    assert placeholders.final_command(command, flags, context) == case["command"]
    assert placeholders.final_environment(env, of_topology, context) == case["environment"]
    assert case.get("peers", context.peer_names) == context.peer_names


def test_every_flag_has_a_value() -> None:
    context = ReplicaContext("worker", 0, {"worker": ["a:1"]}, "/data", "/log/x")
    assert set(placeholders.FLAGS) <= set(placeholders.values(context))
