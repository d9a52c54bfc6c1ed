"""The portal tells the time in two ways, `timezone.now` and `time.time`, which tests can move."""

import re

from tests.repository.test_documents import ROOT, SOURCES

# Other programs: on people's laptops, inside pods. And what compares the database's clock with ours.
OTHERS = (
    *(ROOT / "jobs" / "client", ROOT / "jobs" / "pod"),
    ROOT / "portal" / "database" / "clock.py",
)
OTHER_CLOCKS = re.compile(
    r"\bdatetime\.(now|utcnow|today)\b|\bdate\.today\b|\btime\.(time_ns|localtime|gmtime)\b"
    r"|^from time import|\bCLOCK_REALTIME\b"
    # The database's.
    r"|\bNow\(|\bCURRENT_(TIME|DATE)|\bclock_timestamp\b|\bnow\(\)['\"]|\('now'",
    re.MULTILINE,
)


def test_nobody_asks_another_clock() -> None:
    found = []
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(path.is_relative_to(other) for other in OTHERS):
                name = path.relative_to(ROOT)
                found += [
                    f"{name}: {one.group()}" for one in OTHER_CLOCKS.finditer(path.read_text())
                ]
    assert not found
