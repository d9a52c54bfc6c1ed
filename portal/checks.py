"""What Django checks at start: that no cookie of the portal can reach a program on a node.

Registered by `portal/apps.py`. An error keeps the portal from starting; a warning is shown.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks

HOSTS = "homeport.E001"
FILES = "homeport.E002"
TLS = "homeport.W001"


@checks.register("homeport")
def check_gate(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """Host names and certificate of the gates of notebooks and TensorBoards."""
    found: list[checks.CheckMessage] = []
    if settings.NODE_HOST.lower() in {host.lower() for host in settings.BROWSER_HOSTS}:
        found.append(
            checks.Error(
                f"NODE_HOST and ALLOWED_HOSTS both have {settings.NODE_HOST!r}: browsers would "
                "send the portal's cookies to programs on the nodes, since cookies know no ports.",
                hint="Give the nodes another host name than the portal.",
                id=HOSTS,
            )
        )
    files = {
        "GATE_TLS_CERT_FILE": settings.GATE_TLS_CERT_FILE,
        "GATE_TLS_KEY_FILE": settings.GATE_TLS_KEY_FILE,
    }
    if any(files.values()):
        found.extend(
            checks.Error(
                f"{name}={path!r}: no file that can be read"
                if path
                else f"{name} is not set, but the other half of the pair is",
                hint="The certificate and its key belong together.",
                id=FILES,
            )
            for name, path in files.items()
            if not path or not _is_readable(Path(path))
        )
    elif settings.HTTPS:
        found.append(
            checks.Warning(
                "The portal is served by HTTPS, but gates have no certificate: notebooks and "
                "TensorBoards cannot be opened.",
                hint="Set GATE_TLS_CERT_FILE and GATE_TLS_KEY_FILE to a certificate of NODE_HOST.",
                id=TLS,
            )
        )
    return found


def _is_readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False
