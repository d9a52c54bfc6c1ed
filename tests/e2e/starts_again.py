"""A server that starts again in its pod, and how all that its containers printed is read: on any cluster."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import connect

from tests.e2e.portal import Rest
from tests.e2e.proofs import PULL_S, RUN_S
from tests.tools.waiting import wait_for

LINES = 50
EACH = {"cpu": "50m", "memory": "96Mi"}
# The server ends by itself, and then serves; the worker ends so long after the server's last start.
SCRIPT = """
if [ {{job_name}} = worker ]; then
  until [ -e "$LOG_DIR/serves" ]; do sleep 0.2; done; sleep %(lasts_s)s; exit 0
fi
n=$(($(cat "$LOG_DIR/starts" 2>/dev/null || echo 0) + 1)); echo $n > "$LOG_DIR/starts"
i=1; while [ $i -le %(lines)s ]; do echo "start $n line $i"; i=$((i + 1)); done
[ $n -gt %(restarts)s ] || exit 3
touch "$LOG_DIR/serves"; sleep 600
"""


@dataclass
class Served:
    """One training.

    Attributes:
        restarts: how often its server starts again. (A third end within ten minutes ends a training.)
        lasts_s: how long it goes on after the last start.
    """

    restarts: int
    lasts_s: int
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        starts = range(1, self.restarts + 2)
        return [f"start {n} line {i}" for n in starts for i in range(1, LINES + 1)]


CASES = (Served(1, 1), Served(1, 30), Served(1, 90), Served(2, 1))


def of_the_program(text: str) -> list[str]:
    """The lines that are not ours."""
    return [line for line in text.splitlines() if line and not line.startswith("[homeport]")]


def by_websocket(ada: Rest, case: Served, count: int) -> list[str]:
    """So many lines of the program, or all up to the end of the stream."""
    portal = urlsplit(ada.portal.url)
    url = f"ws://{portal.netloc}/ws/jobs/{case.job['id']}/logs/?replica=ps-0"
    found: list[str] = []
    with connect(url, additional_headers={"Authorization": f"Token {ada.token}"}) as socket:
        while len(found) < count:
            frame = json.loads(socket.recv(timeout=120))
            if frame["type"] == "end":
                break
            text = "\n".join(line["text"] for line in frame.get("lines", ()))
            found += of_the_program(text)
    return found


def read_log(ada: Rest, path: str) -> str:
    answer = ada.call("GET", path)
    assert answer.ok, answer.text
    text: str = answer.content.decode()
    return text


def by_rest(ada: Rest, case: Served, query: str) -> list[str]:
    return of_the_program(read_log(ada, f"jobs/{case.job['id']}/logs/?replica=ps-0&{query}"))


def check_that_every_container_is_read(ada: Rest) -> None:
    """While it runs and after the end, by REST and by websocket."""
    for case in CASES:
        values = {"lines": LINES, "restarts": case.restarts, "lasts_s": case.lasts_s}
        case.job = ada.submit(
            name=f"again-{case.restarts}-{case.lasts_s}",
            topology="tf-ps",
            replicas={"worker": EACH, "ps": EACH},
            command=["sh", "-c", SCRIPT % values],
        )
    for case in CASES:
        if case.lasts_s >= 30:
            wait_for(
                f"all lines of {case.job['name']} are there while it runs",
                lambda case=case: by_rest(ada, case, "download=1") == case.lines,
                timeout_s=PULL_S,
            )
            assert by_rest(ada, case, "tail=10000") == case.lines
            newest = by_rest(ada, case, "tail=60")
            assert newest == case.lines[-len(newest) :]
            assert len(newest) > LINES, "of the container before as well"
            assert by_websocket(ada, case, len(case.lines)) == case.lines
            now = ada.get(f"jobs/{case.job['id']}/")
            assert now["state"] == "running", "it was looked at too late"
    for case in CASES:
        ada.wait(case.job, "succeeded", timeout_s=RUN_S)
    for case in CASES:
        wait_for(
            f"all lines of {case.job['name']} are there after its end",
            lambda case=case: by_rest(ada, case, "download=1") == case.lines,
            timeout_s=120,
        )
        assert by_rest(ada, case, "tail=10000") == case.lines
        assert by_websocket(ada, case, 10**9) == case.lines
