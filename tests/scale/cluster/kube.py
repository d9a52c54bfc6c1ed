"""Requests of a cluster administrator while Homeport is measured, and what the audit log says of others."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from deploy.testcluster.controlplane import ControlPlane

_THREADS = 8
_STRATEGIC = "application/strategic-merge-patch+json"


class Admin:
    """A cluster administrator with a certificate of its own, so that its calls can be told apart."""

    def __init__(self, cluster: ControlPlane) -> None:
        certificate, key = cluster.keys.cluster.client("scale", "scale", "system:masters")
        self.server = cluster.server
        self._session = requests.Session()
        self._session.trust_env = False  # a CA bundle of the environment would count more
        self._session.verify = str(cluster.ca_file)
        self._session.cert = (str(certificate), str(key))
        self._session.mount("https://", HTTPAdapter(pool_maxsize=_THREADS))

    def get(self, path: str, **params: str) -> Any:
        """An object or a list, decoded."""
        return self._done(self._session.get(self.server + path, params=params, timeout=120))

    def create(self, path: str, documents: list[dict[str, Any]]) -> None:
        """Makes objects of one collection, several at once."""

        def make(document: dict[str, Any]) -> None:
            self._done(self._session.post(self.server + path, json=document, timeout=60))

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(make, documents))

    def restart_count(self, namespace: str, pod: str, count: int) -> None:
        """Says what a kubelet says when a container was started again."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ended = {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
        # All that is told of the container: the API server replaces the list, and what is left out is lost.
        main = {
            "name": "main",
            "state": {"running": {"startedAt": now}},
            "lastState": {"terminated": ended},
            "ready": True,
            "restartCount": count,
            "image": "",
            "imageID": "",
        }
        status = {"containerStatuses": [main]}
        answer = self._session.patch(
            f"{self.server}/api/v1/namespaces/{namespace}/pods/{pod}/status",
            data=json.dumps({"status": status}),
            headers={"Content-Type": _STRATEGIC},
            timeout=60,
        )
        self._done(answer)

    @staticmethod
    def _done(answer: requests.Response) -> Any:
        assert answer.ok, f"{answer.request.method} {answer.url}: {answer.text[:500]}"
        return answer.json()


@dataclass(frozen=True)
class Call:
    """One request as the API server saw it.

    Attributes:
        kind: the plural with its subresource.
        began, ended: RFC 3339 with microseconds, so that they sort as text.
    """

    user: str
    verb: str
    kind: str
    namespace: str
    name: str
    code: int
    began: str
    ended: str


def most_at_once(calls: list[Call]) -> int:
    """How many of these were under way at one moment, at most."""
    turns = sorted([(call.began, 1) for call in calls] + [(call.ended, -1) for call in calls])
    return max(accumulate(step for _, step in turns), default=0)


class Audit:
    """Reads the audit log of a control plane; `mark` is where the next reading begins."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def mark(self) -> None:
        """Forget what was logged before."""
        self._at = self._path.stat().st_size if self._path.exists() else 0

    def calls(self, user: str) -> list[Call]:
        """What this user has asked since the mark; watches show when they end."""
        return [call for call in self._read() if call.user == user]

    def counted(self, user: str) -> Counter[str]:
        """`verb kind` -> how often, since the mark."""
        return Counter(f"{call.verb} {call.kind}" for call in self.calls(user))

    def _read(self) -> Iterator[Call]:
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                event = json.loads(line)
                about = event.get("objectRef") or {}
                kind = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
                yield Call(
                    event["user"]["username"],
                    event["verb"],
                    kind or event["requestURI"].partition("?")[0],
                    about.get("namespace", ""),
                    about.get("name", ""),
                    (event.get("responseStatus") or {}).get("code", 0),
                    event["requestReceivedTimestamp"],
                    event["stageTimestamp"],
                )
