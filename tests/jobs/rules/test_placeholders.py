"""Each row of the table that the runner's own copy is held to as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.rules import placeholders

CASES = json.loads((Path(__file__).parent.parent / "placeholder_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_what_a_replica_gets(case: dict[str, Any]) -> None:
    given = dict(case["given"])
    command, flags, env = given.pop("command"), given.pop("flags"), given.pop("env")
    place = placeholders.Place(**given)
    assert placeholders.final_command(command, flags, place) == case["command"]
    assert placeholders.final_environment(env, place) == case["environment"]


def test_every_flag_has_a_value() -> None:
    place = placeholders.Place("worker", 0, {"worker": ["a:1"]}, "/data", "/log/x")
    assert set(placeholders.FLAGS) <= set(placeholders.values(place))
