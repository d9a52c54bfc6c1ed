"""Termination messages: what one side writes the other reads, and nothing breaks the reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pod.protocol.termination import MESSAGE_BYTES, TerminationMessage, encode, parse

MESSAGES = st.builds(
    TerminationMessage,
    reason=st.sampled_from(["", "completed", "volume_full"]),
    text=st.text(max_size=20_000),
    exit_code=st.none() | st.integers(0, 255),
    uploaded=st.none() | st.booleans(),
    archive=st.sampled_from(["", "volume_full"]),
    last_words=st.text(max_size=300),
)


@given(MESSAGES)
def test_a_message_is_read_as_it_was_written_but_for_too_long_a_sentence(
    message: TerminationMessage,
) -> None:
    text = encode(message)
    assert len(text.encode()) <= MESSAGE_BYTES
    found = parse(text)
    assert found._replace(text="") == message._replace(text="")
    assert message.text.startswith(found.text.rstrip(".")) or found.text == message.text


def test_messages_have_the_form_that_all_versions_know() -> None:
    short = TerminationMessage("bundle_broken", "it is cut", 65)
    assert json.loads(encode(short)) == {
        "reason": "bundle_broken",
        "text": "it is cut",
        "exit_code": 65,
    }
    whole = TerminationMessage("completed", "fine", 0, uploaded=False, archive="volume_full")
    assert json.loads(encode(whole)) == {
        "reason": "completed",
        "text": "fine",
        "exit_code": 0,
        "uploaded": False,
        "archive": "volume_full",
    }


def test_the_last_words_of_any_language_stay_whole() -> None:
    """A sign outside the first plane takes 12 bytes where it is escaped, and 4 as it is."""
    words = "\U0001f525" * 300
    message = TerminationMessage(
        "exit_code", "the program ended with exit code 1", 1, True, "", words
    )
    assert parse(encode(message)) == message


def test_what_is_no_text_does_not_break_the_writer() -> None:
    """A file's name may hold any bytes."""
    assert (
        parse(encode(TerminationMessage("command_not_found", "there is no x\udcff", 127))).exit_code
        == 127
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"reason": 1, "uploaded": "yes", "exit_code": true}',
        "{}}",
        '{"a":' + "[" * 4000,
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_message_says_nothing(text: str) -> None:
    assert parse(text) == TerminationMessage()


@given(st.text())
def test_nothing_breaks_the_reader(text: str) -> None:
    assert isinstance(parse(text), TerminationMessage)
