"""The table of limits: every answer that is streamed, every route of pods; docs/operations.md shows it to people.

`test_limits.py` holds it against the real routes: who adds a view that streams adds a row. Numbers are of one
web process.
"""

from dataclasses import dataclass

from portal.web.downloads import MAX_DOWNLOADS, MAX_PER_PERSON


@dataclass(frozen=True)
class Limit:
    """What is allowed at once, and what is said beyond it.

    Attributes:
        each: of one person, or of one token of pods.
        in_all: of all together.
        over: status for who has too many, and for all having too many; each with `Retry-After`.
        test: where it is tried.
    """

    each: int
    in_all: int
    over: tuple[int, int]
    test: str


_DOWNLOAD = Limit(
    MAX_PER_PERSON,
    MAX_DOWNLOADS,
    (429, 503),
    "tests/portal/routes/test_limits.py::test_a_person_has_so_many_at_once",
)

# Route -> its limit. All of these count together.
STREAMING: dict[str, Limit] = {
    "job-log-download": _DOWNLOAD,
    "job-artifact": _DOWNLOAD,
    "audit-csv": _DOWNLOAD,
    "api-job-logs": _DOWNLOAD,
    "api-job-artifact": _DOWNLOAD,
}
