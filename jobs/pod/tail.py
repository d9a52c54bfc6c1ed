"""The end of what a program wrote, as much as its last words need."""

TAIL_BYTES = 64 * 1024
HEAD_BYTES = 4096  # of a line that began before the tail: more than any reason quotes


class OutputTail:
    """Keeps the last `TAIL_BYTES`, and of a line that began before them its beginning: what is quoted begins there."""

    def __init__(self) -> None:
        self._tail = b""
        self._head = b""
        self._line_bytes = 0  # of the line at whose middle the tail begins, before the tail

    def feed(self, data: bytes) -> None:
        whole = self._tail + data
        gone, self._tail = whole[:-TAIL_BYTES], whole[-TAIL_BYTES:]
        if not gone:
            return
        # A progress bar ends its states by a carriage return.
        begin = max(gone.rfind(b"\n"), gone.rfind(b"\r")) + 1
        if begin:
            self._head, self._line_bytes = b"", 0
        self._head += gone[begin : begin + HEAD_BYTES - len(self._head)]
        self._line_bytes += len(gone) - begin

    @property
    def is_cut(self) -> bool:
        """Whether the first line of `data` lacks its middle."""
        return self._line_bytes > len(self._head)

    @property
    def data(self) -> bytes:
        """The last lines; one whose middle is not kept ends where that begins."""
        if not self.is_cut:
            return self._head + self._tail
        ends = [at for at in (self._tail.find(b"\n"), self._tail.find(b"\r")) if at >= 0]
        return self._head + (self._tail[min(ends) :] if ends else b"")
