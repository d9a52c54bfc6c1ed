"""Asks a cluster, by its kubeconfig alone, whether it answers and has a node that takes pods."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class Probe:
    """What of a kubeconfig is needed to ask."""

    server: str
    authority: str  # PEM
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> "Probe | None":
        """The current context of the file; None while it is absent or not whole yet."""
        try:
            return cls._parsed(yaml.safe_load(kubeconfig.read_text()), kubeconfig.parent)
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, StopIteration):
            return None

    @classmethod
    def _parsed(cls, config: dict[str, Any], folder: Path) -> "Probe":
        def named(section: str, name: str) -> dict[str, Any]:
            row = next(row for row in config[section] if row["name"] == name)
            found: dict[str, Any] = row[section[:-1]]
            return found

        context = named("contexts", config["current-context"])
        cluster, user = named("clusters", context["cluster"]), named("users", context["user"])
        if "certificate-authority-data" in cluster:
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        else:
            authority = (folder / cluster["certificate-authority"]).read_text()
        return cls(cluster["server"], authority, user["token"])

    def get(self, path: str) -> Any:
        """The JSON (or text) of an answer of 200; None when there is none."""
        request = urllib.request.Request(
            self.server.rstrip("/") + path, headers={"Authorization": f"Bearer {self.token}"}
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),  # the cluster is on this machine
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=self.authority)),
        )
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                body = answer.read()
        except (OSError, urllib.error.URLError):
            return None
        try:
            return json.loads(body)
        except ValueError:
            return body.decode(errors="replace")

    def answers(self) -> bool:
        return self.get("/readyz") is not None

    def has_ready_node(self) -> bool:
        return any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in self._node_conditions()
        )

    def lost_isolation(self) -> str:
        """What pods lack where namespaces are refused, in sentences; empty where they are not."""
        for condition in self._node_conditions():
            if condition.get("reason") == "PlainProcesses":
                return str(condition.get("message", ""))
        return ""

    def _node_conditions(self) -> list[dict[str, Any]]:
        nodes = self.get("/api/v1/nodes")
        items = nodes.get("items") or [] if isinstance(nodes, dict) else []
        return [
            condition
            for node in items
            for condition in node.get("status", {}).get("conditions") or []
        ]
