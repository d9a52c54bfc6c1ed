"""Which cookies pass the gate: those that the app itself has set, and no others.

A host's cookies are sent to all its ports. So what a browser brings may be the portal's, another
gate's or another app's; the app is shown only names that it set itself since the gate began.
"""

from dataclasses import dataclass, field

# JupyterLab's protection against forged requests; known without having been seen, since it is set
# once and then lives in the browser, also over a restart of the gate.
_KNOWN = frozenset({"_xsrf"})
_NEVER = ("gate_", "homeport_", "__host-", "__secure-", "sessionid", "csrftoken", "messages")
MAX_NAMES = 200


def parse(headers: list[str]) -> list[tuple[str, str]]:
    """Names and values of Cookie headers, as they are."""
    pairs = []
    for part in ";".join(headers).split(";"):
        name, separator, value = part.strip(" \t").partition("=")
        if separator and name:
            pairs.append((name, value))
    return pairs


def is_foreign(name: str) -> bool:
    """Whether an app may neither see nor set a cookie of this name, whoever made it."""
    return name.lower().startswith(_NEVER)


@dataclass
class Cookies:
    """Remembers what the app has set."""

    prefix: str
    _names: set[str] = field(default_factory=lambda: set(_KNOWN))

    def of_app(self, headers: list[str]) -> str:
        """The Cookie header for the app; empty: none."""
        return "; ".join(
            f"{name}={value}"
            for name, value in parse(headers)
            if name in self._names and not is_foreign(name)
        )

    def from_app(self, header: str) -> str | None:
        """A Set-Cookie header as it may pass to the browser; None: not at all.

        With a Domain it would reach other hosts. Its path is kept inside of our own, so that it
        does not reach what answers on other ports.
        """
        pair, *attributes = [part.strip(" \t") for part in header.split(";")]
        name = pair.partition("=")[0].strip(" \t")
        if not name or "=" not in pair or is_foreign(name):
            return None
        kept = [pair]
        path = ""
        for attribute in attributes:
            key, _, value = attribute.partition("=")
            if key.strip().lower() == "domain":
                return None
            if key.strip().lower() == "path":
                path = value.strip()
            else:
                kept.append(attribute)
        if path + "/" != self.prefix and not path.startswith(self.prefix):
            path = self.prefix
        if len(self._names) < MAX_NAMES:
            self._names.add(name)
        return "; ".join([*kept, f"Path={path}"])
