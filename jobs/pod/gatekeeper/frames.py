"""Where websocket frames end in a stream of bytes, and the frames that close a websocket.

The gate passes websockets on as bytes: every message, however large, costs it one buffer. To close
one it has to wait for the end of a frame (RFC 6455, section 5.2), which is all that is known
here; control frames may stand between the frames of one message.
"""

import os
import struct

_MAX_REASON_BYTES = 123


class Frames:
    """Follows one direction of a websocket."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._payload_left = 0
        self._is_closing = False

    @property
    def has_closed(self) -> bool:
        """Whether a whole close frame has passed."""
        return self._is_closing and self.is_between

    @property
    def is_between(self) -> bool:
        """Whether the bytes so far end with the end of a frame."""
        return not self._header and not self._payload_left

    def feed(self, data: bytes, *, to_end_of_frame: bool = False) -> int:
        """Takes bytes in; how many: all of them, or those until the first end of a frame."""
        position = 0
        while position < len(data):
            if self._payload_left:
                step = min(self._payload_left, len(data) - position)
                self._payload_left -= step
                position += step
            else:
                self._header.append(data[position])
                position += 1
                self._payload_left = self._read_header()
            if to_end_of_frame and self.is_between:
                break
        return position

    def _read_header(self) -> int:
        """The length of the payload once the header is complete, which is then forgotten."""
        header = self._header
        if len(header) < 2:
            return 0
        length = header[1] & 0x7F
        extra = {126: 2, 127: 8}.get(length, 0)
        if len(header) < 2 + extra + (4 if header[1] & 0x80 else 0):
            return 0
        if extra:
            length = int.from_bytes(header[2 : 2 + extra], "big")
        self._is_closing = self._is_closing or header[0] & 0x0F == 8
        header.clear()
        return length


def close_frame(code: int, reason: str, *, masked: bool) -> bytes:
    """A frame that closes; what is sent towards a server has to be masked."""
    whole = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
    payload = struct.pack("!H", code) + whole.encode()
    if not masked:
        return bytes((0x88, len(payload))) + payload
    mask = os.urandom(4)
    hidden = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return bytes((0x88, 0x80 | len(payload))) + mask + hidden
