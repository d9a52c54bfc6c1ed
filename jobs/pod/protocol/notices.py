"""Our own lines in the log of a program: how they begin, and the one that stands for lines left out."""

import re

MARK = "[homeport] "
# In what a kubelet keeps, each line stands behind its time.
_GAP = re.compile(rb"^\S+ \[homeport\] (\d{1,15}) lines were skipped here", re.MULTILINE)

# Ends a piece of a line that has no end yet: what writes a container's log holds lines back until they end, and a
# program may leave one open for hours. An application program command, which terminals do not show (ECMA-48, 8.3.2).
UNFINISHED = b"\x1b_homeport unfinished\x1b\\"
# ... as a kubelet gives it, with the time of the next piece: taken out, the pieces are the line.
_BETWEEN = re.compile(re.escape(UNFINISHED) + rb"\n[^ \n]* ")


def rejoined(data: bytes) -> bytes:
    """Lines behind their times, as the program wrote them; the last may end with `UNFINISHED` and a line break."""
    return _BETWEEN.sub(b"", data) if UNFINISHED in data else data


def is_unfinished(data: bytes) -> bool:
    """Whether the last of these lines goes on in the next one."""
    return data.endswith(UNFINISHED + b"\n")


def notice(text: str) -> str:
    """A line of ours, with its line break."""
    return MARK + text + "\n"


def gap_line(lines: int) -> bytes:
    """What stands in the output for so many lines that are in the archive only."""
    return notice(f"{lines} lines were skipped here; they are in the archive").encode()


def lines_left_out(data: bytes) -> int:
    """For how many lines the gaps in these lines of a kubelet stand, beyond themselves."""
    if b" [homeport] " not in data:
        return 0
    counts = [int(count) for count in _GAP.findall(data)]
    return sum(counts) - len(counts)
