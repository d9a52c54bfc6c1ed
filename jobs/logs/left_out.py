"""What of a log is not shown before its first line, in words, and how it is found."""

from dataclasses import dataclass

from jobs.archive.logs import Log
from jobs.logs.rows import MAX_LINE_BYTES, plain_lines

# A kubelet begins a new file at 10 MiB (containerLogMaxSize), where each line has some 40 bytes more, and
# reads that one alone. What a longer log begins with is in the archive.
LIVE_MAX_BYTES = 1024**2
_COMPARED_CHARS = 1024  # of a line; of longer ones the ends may have been cut on the way

NODE_LACKS = "the node no longer has the lines before these; the whole log has them"
_WHERE = "the download and `homeport logs` have them"


@dataclass(frozen=True)
class LeftOut:
    """There are lines before the first one that is shown.

    Attributes:
        lines: so many; None: nobody has counted them.
        size_bytes: so long they are, where that is known.
    """

    lines: int | None = None
    size_bytes: int | None = None

    def words(self, where: str = _WHERE) -> str:
        """What stands before the first line.

        Args:
            where: who has what is left out, as a clause.
        """
        if self.lines is not None:
            noun = "earlier line is" if self.lines == 1 else "earlier lines are"
            return f"{self.lines:,} {noun} left out; {where}"
        if self.size_bytes is not None:
            return f"{self.size_bytes:,} bytes of earlier output are left out; {where}"
        return f"earlier lines are left out; {where}"


def before(log: Log, byte: int) -> LeftOut | None:
    """What an archived log has before a position; blocks (object store)."""
    if not byte:
        return None
    return LeftOut(log.lines_before(byte), byte)


def may_lack_beginning(archived_bytes: int) -> bool:
    """Whether so long a log of a container can have lost its beginning on the node."""
    return archived_bytes > LIVE_MAX_BYTES


def lacks_beginning(log: Log, first_text: str) -> bool:
    """Whether a node has lost the beginning of a log; blocks (object store).

    Args:
        log: what is archived of the container.
        first_text: the first line that the node has, as viewers get it.
    """
    start = log.run_start_byte
    if not may_lack_beginning(log.end_byte - start):
        return False
    line, newline, _ = log.read(start, MAX_LINE_BYTES).partition(b"\n")
    if not newline:  # nothing to compare: a line without end, or one that could not be kept
        return False
    return plain_lines(line)[0].text[:_COMPARED_CHARS] != first_text[:_COMPARED_CHARS]
