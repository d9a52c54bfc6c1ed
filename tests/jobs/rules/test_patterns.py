"""Messages as clusters write them are told in our words, with a next step."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules import patterns, reasons, waits
from jobs.rules.waits import WaitingPod, reason_of_wait

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.mark.parametrize("row", RECORDED, ids=[row["message"][:60] for row in RECORDED])
def test_a_recorded_message_is_recognised(row: dict[str, str]) -> None:
    code = patterns.find_code(row["family"], row["message"])
    assert code == row["code"]
    detail = patterns.plain(row["family"], row["message"])
    reason = reasons.make(code, who="worker-0", image="team/train:v9", detail=detail)
    assert row["words"] in reason.text
    assert reason.next_step


def test_every_pattern_has_a_recorded_message_and_a_row_of_its_own() -> None:
    told = {row["code"] for row in RECORDED}
    known = {pattern.code for pattern in patterns.PATTERNS}
    assert known - told <= {"start_missing"}
    assert len(told) >= 25
    for code in known | told:
        assert code in reasons.ROWS
        assert patterns.family_of(code) in {p.family for p in patterns.PATTERNS} | {"volume"}


def test_what_is_unknown_keeps_its_own_words() -> None:
    for family in ("placing", "image_pull", "volume", "container_config", "quota_refused"):
        assert patterns.find_code(family, "something new") == family
        assert patterns.plain(family, "something new") == "something new"
    assert patterns.plain("placing", "0/2 nodes are available: 2 have the flu.") == (
        "of 2 nodes 2 have the flu"
    )


@given(st.text(max_size=300), st.sampled_from(["placing", "image_pull", "volume", "evicted"]))
def test_no_message_breaks_the_reader(text: str, family: str) -> None:
    for message in (
        text,
        f"0/9 nodes are available: {text}",
        f"0/1 nodes are available: 1 {text}.",
    ):
        assert patterns.find_code(family, message) in reasons.ROWS
        assert isinstance(patterns.plain(family, message), str)


def test_a_specific_wait_is_treated_as_its_kind() -> None:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    reason = reason_of_wait(WaitingPod(who="worker-0", image="i", unplaced_why=message))
    assert reason.code == "gpu_taken"
    assert patterns.family_of(reason.code) in waits.WITHDRAW_AFTER_DEADLINE
    pull = WaitingPod(
        who="worker-0", image="i", node="n", waiting_reason="ErrImagePull",
        waiting_message="manifest unknown",
    )  # fmt: skip
    late = reason_of_wait(pull)
    assert late.code == "image_missing"
    assert patterns.family_of(late.code) in waits.FATAL_AFTER_DEADLINE
    assert waits.most_specific([reason, late]) == late
