"""Where websocket frames end, wherever the stream is cut; and tickets that somebody has changed."""

import struct
import time
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.pod.gatekeeper.frames import Frames, close_frame
from jobs.pod.gatekeeper.refusals import GateRefusal
from jobs.pod.gatekeeper.tickets import Signer
from jobs.pod.protocol.tickets import encode
from tests.jobs.pod.gate.world import ALICE, SECRETS, SERVICE, ticket

SIZES = st.sampled_from([0, 1, 2, 125, 126, 127, 200, 65535, 65536])


def frame(opcode: int, size: int, *, masked: bool) -> bytes:
    """One whole frame, written after RFC 6455 section 5.2."""
    mask = 0x80 if masked else 0
    if size < 126:
        head = bytes((0x80 | opcode, mask | size))
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, mask | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, mask | 127, size)
    # The payload looks like heads of frames.
    return head + (b"\x88\x02\x03\xe8" if masked else b"") + b"\x88" * size


FRAMES = st.lists(
    st.builds(frame, st.sampled_from([0, 1, 2, 9, 10]), SIZES, masked=st.booleans()), max_size=6
)


@given(FRAMES, st.data())
def test_the_end_of_each_frame_is_found_wherever_the_stream_is_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(parts)
    ends = set(accumulate(map(len, parts), initial=0))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    frames = Frames()
    for start, end in pairwise(sorted({0, *cuts, len(stream)})):
        assert frames.feed(stream[start:end]) == end - start
        assert frames.is_between == (end in ends)
        assert not frames.has_closed


@given(FRAMES.filter(bool), st.integers(0, 300))
def test_a_stream_is_cut_at_the_first_end(parts: list[bytes], cut: int) -> None:
    stream = b"".join(parts)
    cut = min(cut, len(parts[0]) - 1)
    frames = Frames()
    frames.feed(stream[:cut])
    assert frames.feed(stream[cut:], to_end_of_frame=True) == len(parts[0]) - cut
    assert frames.is_between


@pytest.mark.parametrize("masked", [True, False])
@example(1001, "ü" * 100)
@given(st.integers(1000, 4999), st.text(max_size=200))
def test_our_own_close_frames_are_frames(masked: bool, code: int, reason: str) -> None:
    data = close_frame(code, reason, masked=masked)
    frames = Frames()
    assert frames.feed(data) == len(data)
    assert frames.has_closed
    size, payload = data[1] & 0x7F, data[2:]
    assert size <= 125
    if masked:
        mask, hidden = payload[:4], payload[4:]
        payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(hidden))
    assert len(payload) == size
    assert struct.unpack("!H", payload[:2]) == (code,)
    said = payload[2:].decode()  # whole characters only
    assert reason.startswith(said)


SIGNER = Signer(SERVICE, 1, SECRETS["ticket_key"].encode(), "notebook")


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_ticket_with_one_byte_changed_is_refused(at: int, byte: int) -> None:
    good = ticket(jti="x" * 32, iat=1_800_000_000.5, exp=1_800_000_060.5)
    assert SIGNER.read_ticket(good).subject == ALICE
    at %= len(good)
    changed = good[:at] + chr(byte) + good[at + 1 :]
    if changed != good:
        with pytest.raises(GateRefusal):
            SIGNER.read_ticket(changed)


@given(st.text())
def test_no_text_is_a_ticket_or_a_cookie(text: str) -> None:
    for read in (SIGNER.read_ticket, SIGNER.read_cookie):
        for given_text in (text, f"{encode(text.encode('utf-8', 'replace'))}.{text}"):
            with pytest.raises(GateRefusal):
                read(given_text)


def test_a_ticket_is_no_cookie_and_a_cookie_no_ticket() -> None:
    cookie = SIGNER.write_cookie(ALICE, time.time())
    assert SIGNER.read_cookie(cookie).subject == ALICE
    with pytest.raises(GateRefusal):
        SIGNER.read_ticket(cookie)
    with pytest.raises(GateRefusal):
        SIGNER.read_cookie(ticket())
