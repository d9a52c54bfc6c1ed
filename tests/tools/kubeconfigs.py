"""Kubeconfigs of API servers that tests run."""

import json
from pathlib import Path
from typing import Any


def write_kubeconfig(
    path: Path, server: str, user: dict[str, Any], cluster: dict[str, Any] | None = None
) -> Path:
    """One account at one server; `cluster` is what is said of it besides its address."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path
