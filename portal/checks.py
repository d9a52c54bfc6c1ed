"""What Django checks at start: whether the settings are safe.

Registered by `portal/apps.py`. An error keeps the portal from starting; a warning is shown. What
`portal/insecure.py` finds is shown by `check --deploy`, and refused by `serve` alone: other commands
serve nobody.
"""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.http.request import validate_host

from portal import environment, insecure
from portal.authorities import read_authorities
from portal.errors import ConfigurationError

HOSTS = "homeport.E001"
FILES = "homeport.E002"
WILDCARDS = "homeport.E006"
AUTHORITIES = "homeport.E008"
TLS = "homeport.W001"
HOME = "homeport.W002"
PROXIES = "homeport.W003"
SELECTOR = "homeport.W008"


@checks.register("homeport")
def check_gate(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """Host names and certificate of the gates of notebooks and TensorBoards."""
    found: list[checks.CheckMessage] = []
    if validate_host(settings.NODE_HOST.lower(), [h.lower() for h in settings.BROWSER_HOSTS]):
        found.append(
            checks.Error(
                f"NODE_HOST and ALLOWED_HOSTS or PUBLIC_URL share {settings.NODE_HOST!r}: browsers would "
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


@checks.register("homeport")
def check_authorities(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """The file of authorities that people's pods are given."""
    if not settings.POD_AUTHORITIES_FILE:
        return []
    try:
        read_authorities(settings.POD_AUTHORITIES_FILE)
    except ConfigurationError as error:
        hint = "Certificates of authorities as PEM, one after the other; or leave it empty."
        return [checks.Error(str(error), hint=hint, id=AUTHORITIES)]
    return []


@checks.register("homeport")
def check_hosts(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """Host names are whole names: `*` and `.lab.example` would let others choose ours."""
    wild = [host for host in settings.BROWSER_HOSTS if "*" in host or host.startswith(".")]
    return [
        checks.Error(
            f"ALLOWED_HOSTS has the pattern {host!r}: pages would be served under names that "
            "programs of others have too.",
            hint="Write each name in full, or PUBLIC_URL alone.",
            id=WILDCARDS,
        )
        for host in wild
    ]


@checks.register("homeport")
def check_home(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """HOMEPORT_HOME holds database, keys and code of people."""
    mode = Path(settings.HOMEPORT_HOME).stat().st_mode & 0o777
    if not mode & 0o077 or environment.is_in_pod():  # a volume is the pod's alone
        return []
    return [
        checks.Warning(
            f"HOMEPORT_HOME={str(settings.HOMEPORT_HOME)!r} can be read by other users of this "
            f"machine (mode {mode:04o}): database, keys, code and logs of people lie there.",
            hint=f"chmod 700 {settings.HOMEPORT_HOME}",
            id=HOME,
        )
    ]


@checks.register("homeport", deploy=True)
def check_exposure(app_configs: Sequence[Any] | None, **_: Any) -> list[checks.CheckMessage]:
    """What `serve` refuses, or starts with because somebody has accepted it."""
    found: list[checks.CheckMessage] = [
        checks.Warning(f"{fault.text} (accepted)", hint=fault.hint, id=fault.id.replace(".E", ".W"))
        if fault.is_accepted
        else checks.Error(fault.text, hint=fault.hint, id=fault.id)
        for fault in insecure.find_faults()
    ]
    if settings.HTTPS and not settings.TRUSTED_PROXIES and not settings.TLS_CERT_FILE:
        found.append(
            checks.Warning(
                "HTTPS without TRUSTED_PROXIES: everybody seems to come from the load balancer, "
                "and shares one count of wrong passwords.",
                hint="Set TRUSTED_PROXIES to the addresses of the load balancer.",
                id=PROXIES,
            )
        )
    found += [
        checks.Warning(
            f"TRUSTED_PROXIES has {proxy!r}, which is no address and no network: nobody comes from it.",
            hint="Write addresses such as 10.0.0.5 or networks such as 10.0.0.0/24.",
            id=PROXIES,
        )
        for proxy in settings.TRUSTED_PROXIES
        if not _is_network(proxy)
    ]
    if re.match(r"[^.]+\.[^.]+\.svc(\.|$)", urlsplit(settings.POD_PORTAL_URL).hostname or "") and (
        not settings.POD_PORTAL_SELECTOR
    ):
        found.append(
            checks.Warning(
                "POD_PORTAL_URL names a Service, and people's pods reach its whole namespace: a "
                "database or Redis beside the portal too.",
                hint="Set POD_PORTAL_SELECTOR to labels of the portal's pods.",
                id=SELECTOR,
            )
        )
    return found


def _is_network(text: str) -> bool:
    """Whether uvicorn knows it: an address, a network, or everybody."""
    if text == "*":
        return True
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False
