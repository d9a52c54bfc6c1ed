"""The contract itself: scripts and transcripts belong together, and no exception is left over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract import exceptions, report, results, transcripts
from tests.contract.clusters import Cluster
from tests.contract.compare import differences
from tests.contract.conftest import Plays
from tests.contract.results import ROOT, Behaviour, Results
from tests.contract.test_transcripts import NAMES


def test_each_script_has_a_transcript_and_each_transcript_a_script() -> None:
    assert transcripts.recorded() == set(NAMES)


def test_each_exception_still_excuses_something(plays: Plays, cluster: Cluster) -> None:
    if cluster.side != "onebox":
        pytest.skip("exceptions are onebox's")
    excuses = exceptions.load()
    used: set[tuple[str, str]] = set()
    for name in NAMES:
        if name not in plays.asked:
            pytest.skip("only a whole run can tell")
        found = differences(transcripts.load(name), plays.of(name)[0])
        used |= exceptions.judge(name, found, excuses).used
    idle = [
        f"{excuse.id}: {place}"
        for excuse in excuses
        if not excuse.is_gap
        for place in excuse.places
        if (excuse.id, place) not in used
    ]
    assert not idle, "take out of exceptions.toml what does not differ any more:\n" + "\n".join(
        idle
    )


def test_what_differs_of_the_node_is_tried_where_it_says() -> None:
    for difference in exceptions.of_the_node():
        assert difference.tests, difference.id
        for test in difference.tests:
            file, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(), test


@pytest.mark.parametrize(
    ("why", "is_given", "sort"),
    [
        ("it compacts seldom", True, "skipped"),
        ("it compacts seldom", False, "untried"),
        ("", True, "untried"),
    ],
)
def test_a_skip_with_a_reason_is_no_fault_of_a_given_cluster(
    why: str, is_given: bool, sort: str
) -> None:
    onebox = Results("", {"a": Behaviour("A", "passed"), "b": Behaviour("B", "passed")})
    upstream = Results("", {"a": Behaviour("A", "passed"), "b": Behaviour("B", "skipped", why=why)})
    found = report.parity(onebox, upstream, is_given=is_given)
    assert found.same == ["a"]
    assert getattr(found, sort) == ["b"]
    assert found.percent == (100 if sort == "skipped" else 50)


def test_results_of_another_state_of_the_code_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRACT_RESULTS", str(tmp_path))
    kept = Results("v1", {"a": Behaviour("A", "passed")}, results.tree())
    kept.save("onebox")
    assert results.load("onebox") == kept
    replace(kept, tree="of yesterday").save("onebox")
    assert results.load("onebox") is None
