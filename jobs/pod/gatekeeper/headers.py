"""Which headers pass the gate in each direction."""

from multidict import CIMultiDict, CIMultiDictProxy

from jobs.pod.gatekeeper.config import Config
from jobs.pod.gatekeeper.cookies import Cookies

# Between two neighbours only: https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# What a browser may not tell the app: who it is (the gate does), and how it came here.
_NOT_IN = frozenset({"authorization", "cookie", "expect", "forwarded", "x-real-ip", "x-scheme"})
# What an app may not tell a browser, since it would reach beyond the app's own path: to other
# ports of the host, or to what will answer on this port later.
_NOT_OUT = frozenset(
    {
        "alt-svc",
        "clear-site-data",
        "public-key-pins",
        "service-worker-allowed",
        "set-cookie",
        "strict-transport-security",
    }
)

Headers = CIMultiDict[str] | CIMultiDictProxy[str]


def to_app(headers: Headers, config: Config, cookies: Cookies, client: str) -> CIMultiDict[str]:
    """The headers of a request as the app gets it; the framing of the body is not in them.

    Args:
        client: IP address that the request came from.
    """
    dropped = _HOP_BY_HOP | _NOT_IN | _named_by_connection(headers)
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped and not name.lower().startswith("x-forwarded-")
    )
    kept = cookies.of_app(headers.getall("Cookie", []))
    if kept:
        passed["Cookie"] = kept
    passed["X-Forwarded-For"] = client
    passed["X-Forwarded-Proto"] = config.scheme
    passed["X-Forwarded-Host"] = headers.get("Host", "")
    if config.app_token:
        passed["Authorization"] = f"token {config.app_token}"
    return passed


def to_browser(headers: Headers, cookies: Cookies) -> CIMultiDict[str]:
    """The headers of an answer as the browser gets it."""
    dropped = _HOP_BY_HOP | _NOT_OUT | _named_by_connection(headers)
    passed = CIMultiDict(
        (name, sendable(value)) for name, value in headers.items() if name.lower() not in dropped
    )
    for header in headers.getall("Set-Cookie", []):
        kept = cookies.from_app(sendable(header))
        if kept is not None:
            passed.add("Set-Cookie", kept)
    # On top of what the app says: pages of other ports may not frame it.
    passed.add("Content-Security-Policy", "frame-ancestors 'self'")
    return passed


def _named_by_connection(headers: Headers) -> set[str]:
    named = ",".join(headers.getall("Connection", []))
    return {name.strip().lower() for name in named.split(",") if name.strip()}


def sendable(value: str) -> str:
    """Bytes that are not UTF-8 come as surrogates, which cannot be written again."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
