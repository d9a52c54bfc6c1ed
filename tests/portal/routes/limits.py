"""The table of limits: every answer that is streamed, every route of pods; docs/operations.md shows it to people.

`test_limits.py` holds it against the real routes: who adds a view that streams adds a row. Numbers are of one
web process.
"""

from dataclasses import dataclass

from jobs.pod_api import hosts
from portal.server import pods_pace
from portal.storage.folder import STORE_PATH
from portal.web.downloads import MAX_DOWNLOADS, MAX_PER_PERSON
from tests.portal.routes.table import TABLE, Door


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


@dataclass(frozen=True)
class PodLimit:
    """What one token of a pod, or one training's part of the store, is given. People are not let in.

    Attributes:
        at_once: that are worked on.
        per_s: that begin in a second, with one pod.
        waiting: for their turn, with one pod.
        in_all: that wait, of all tokens together.
        over: status, with `Retry-After`.
    """

    at_once: int
    per_s: int
    waiting: int
    in_all: int
    over: int
    test: str


_TEST = "tests/portal/routes/test_limits.py::test_a_token_has_its_pace_on_every_route_of_pods"


def _of_token(at_once: int, in_all: int = pods_pace.MOST_WAITING, test: str = _TEST) -> PodLimit:
    per_s, waiting = int(pods_pace.PER_S), pods_pace.LEAST_WAITING
    return PodLimit(at_once, per_s, waiting, in_all, 429, test)


STORE = STORE_PATH.lstrip("/")
_HOSTS = "internal/v1/jobs/<uuid:job_id>/hosts/"
_HOSTS_TEST = (
    "tests/jobs/pod_api/test_runner_at_the_door.py::test_addresses_are_waited_for_without_a_thread"
)
# All routes of a token count together, but for what lies in the store, and for who waits for addresses.
PODS: dict[str, PodLimit] = {
    **{key: _of_token(pods_pace.AT_ONCE) for key, rule in TABLE.items() if rule.door is Door.PODS},
    _HOSTS: _of_token(pods_pace.AT_ONCE, hosts.MAX_WAITING, _HOSTS_TEST),
    STORE: _of_token(pods_pace.AT_ONCE_OF_STORE),
}
