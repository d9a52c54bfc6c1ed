# ruff: noqa: UP045 (the syntax of Python 3.6: images bring their own Python)
"""The termination message of our programs in pods: how one ended, as JSON that the kubelet keeps."""

import json
from typing import NamedTuple, Optional

MESSAGE_BYTES = 4096  # the kubelet keeps no more


class TerminationMessage(NamedTuple):
    """How a program of ours ended; the empty one is of a program that was killed.

    Attributes:
        reason: one of the reason codes in `codes.py`.
        text: a sentence.
        uploaded: whether all of the log is in the object store; None of who ships nothing.
        archive: reason code for a part of the log that could not be kept; empty when all is.
        last_words: the line of its output that says most about why it failed; empty: none does, or `text` is it.
    """

    reason: str = ""
    text: str = ""
    exit_code: Optional[int] = None
    uploaded: Optional[bool] = None
    archive: str = ""
    last_words: str = ""


def encode(message: TerminationMessage) -> str:
    """The message as JSON of at most `MESSAGE_BYTES` of UTF-8; a sentence that is too long is cut."""
    while True:
        fields = message._asdict()
        if message.uploaded is None:
            del fields["uploaded"]
        for name in ("archive", "last_words"):
            if not fields[name]:
                del fields[name]
        # As it is: an escaped sign takes 6 or 12 bytes. What is no text, as half of a pair, cannot be sent.
        plain = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        if len(plain) <= MESSAGE_BYTES:
            return plain.decode()
        text, words = message.text, message.last_words
        if len(words) > len(text):
            message = message._replace(last_words=words[: len(words) // 2] + "…")
        else:
            message = message._replace(text=text[: len(text) // 2] + "...")


def parse(text: str) -> TerminationMessage:
    """What a program of ours wrote; never raises, for programs of people may write there as well."""
    try:
        fields = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):  # the second for thousands of brackets
        return TerminationMessage()
    if not isinstance(fields, dict):
        return TerminationMessage()
    code, uploaded = fields.get("exit_code"), fields.get("uploaded")
    return TerminationMessage(
        reason=fields["reason"] if isinstance(fields.get("reason"), str) else "",
        text=fields["text"] if isinstance(fields.get("text"), str) else "",
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        uploaded=uploaded if isinstance(uploaded, bool) else None,
        archive=fields["archive"] if isinstance(fields.get("archive"), str) else "",
        last_words=fields["last_words"] if isinstance(fields.get("last_words"), str) else "",
    )
