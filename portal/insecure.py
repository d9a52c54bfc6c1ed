"""What must not be served to other machines as it is set, unless somebody has accepted it by name.

`serve` refuses what is found here; ACCEPT_INSECURE names what it starts with all the same, and that
is said at each start and to admins on every page.
"""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from portal.environment.parsers import NO_REDIS, PLAIN_HTTP, SHORT_KEY

KEY_LENGTH, KEY_LETTERS = 50, 5  # as Django asks of a key (security.W009)


@dataclass(frozen=True)
class Fault:
    """One thing that is not safe.

    Attributes:
        id: of the system check.
        word: by which ACCEPT_INSECURE accepts it; empty: nothing does.
        text: what may happen, with the settings at fault.
        hint: what to set instead.
    """

    id: str
    word: str
    text: str
    hint: str

    @property
    def is_accepted(self) -> bool:
        return self.word in settings.ACCEPT_INSECURE


class _Process:
    """Attributes: is_split: whether web server and reconciler run in processes of their own."""

    is_split = False


def say_split() -> None:
    """Notes that this process is the web server or the reconciler alone."""
    _Process.is_split = True


def find_faults() -> list[Fault]:
    """Everything that is not safe about the settings of this process."""
    found = []
    if is_public():
        if settings.DEBUG:
            found.append(
                Fault(
                    "homeport.E003",
                    "",
                    _("DEBUG shows code, settings and values on error pages to other machines."),
                    _("Leave DEBUG out, or listen on LISTEN=127.0.0.1."),
                )
            )
        if not settings.HTTPS:
            found.append(
                Fault(
                    "homeport.E004",
                    PLAIN_HTTP,
                    _("Passwords and sessions of other machines travel by plain HTTP."),
                    _(
                        "Set PUBLIC_URL=https://... and a load balancer that speaks HTTPS, or "
                        "listen on LISTEN=127.0.0.1."
                    ),
                )
            )
        # What an older one has signed is good, too.
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if any(len(key) < KEY_LENGTH or len(set(key)) < KEY_LETTERS for key in keys):
            found.append(
                Fault(
                    "homeport.E005",
                    SHORT_KEY,
                    _(
                        "HOMEPORT_SECRET_KEY can be guessed, and whoever knows it can sign in as anybody."
                    ),
                    _(
                        "Leave it out, so that one is created, or set at least 50 random characters."
                    ),
                )
            )
    if _Process.is_split and not settings.REDIS_URL:
        found.append(
            Fault(
                "homeport.E007",
                NO_REDIS,
                _(
                    "Processes without a shared Redis do not hear of each other: pages do not update."
                ),
                _("Set REDIS_URL, or run `serve` without --no-web and --no-reconciler."),
            )
        )
    return found


def is_public() -> bool:
    """Whether other machines reach the portal: by where it listens, or by a name that it answers to.

    A name alone tells of a proxy on this machine, which passes on what comes from others.
    """
    host = urlsplit(settings.PUBLIC_URL).hostname or "localhost"
    return not all(map(_is_loopback, (settings.LISTEN, host, *settings.BROWSER_HOSTS)))


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name of somewhere; empty: every address
        return False


def accepted() -> list[Fault]:
    """What ACCEPT_INSECURE names of it."""
    return [fault for fault in find_faults() if fault.is_accepted]


def refusal() -> str:
    """Why `serve` must not start, with the line to set where that is possible; empty: it may."""
    refused = [fault for fault in find_faults() if not fault.is_accepted]
    if not refused:
        return ""
    lines = ["it is not safe as it is set:"]
    lines += [f"- {fault.text} {fault.hint} ({fault.id})" for fault in refused]
    if all(fault.word for fault in refused):
        words = ",".join(fault.word for fault in find_faults())
        lines.append(f"To start all the same, set ACCEPT_INSECURE={words}")
    return "\n".join(lines)
