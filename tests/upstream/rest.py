"""Plain calls of the Kubernetes API as somebody, to see what is answered."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

PATCH = {"Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        text: the sentence of a Status, else the body.
        warnings: what the API server warns of.
    """

    status: int
    text: str
    warnings: str
    body: Any


class Caller:
    """One account at one API server."""

    def __init__(self, kubeconfig: Path, ca_file: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        user = content["users"][0]["user"]
        self._server = content["clusters"][0]["cluster"]["server"]
        self._session = requests.Session()
        self._session.trust_env = False  # or REQUESTS_CA_BUNDLE would win
        self._session.verify = str(ca_file)
        if "token" in user:
            self._session.headers["Authorization"] = f"Bearer {user['token']}"
        else:
            self._session.cert = tuple(  # type: ignore[assignment]
                str(kubeconfig.with_suffix(end)) for end in (".crt", ".key")
            )

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        sent = {**(PATCH if method == "PATCH" else {}), **(headers or {})}
        answer = self._session.request(
            method, self._server + path, json=body, headers=sent, timeout=30
        )
        try:
            said = answer.json()
        except ValueError:
            said = {}
        is_status = isinstance(said, dict) and said.get("kind") == "Status"
        text = said.get("message", "") if is_status else answer.text
        return Reply(answer.status_code, text, answer.headers.get("Warning", ""), said)
