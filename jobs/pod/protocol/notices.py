"""Our own lines in the log of a program: how they begin, and the one that stands for lines left out."""

import re

MARK = "[homeport] "
# In what a kubelet keeps, each line stands behind its time.
_GAP = re.compile(rb"^\S+ \[homeport\] (\d{1,15}) lines were skipped here", re.MULTILINE)


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
