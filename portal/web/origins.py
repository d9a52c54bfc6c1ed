"""Decides by the Origin header whether a web page may open a websocket.

Browsers send cookies with websockets that any site opens (RFC 6455 section 10.2), so a page of
another origin would act as the person who is signed in. An origin is scheme, host and port, and is
compared as a whole: a prefix, a suffix or another port is another origin.
"""

from collections.abc import Iterable

from django.conf import settings


def may_connect(headers: Iterable[tuple[bytes, bytes]], *, has_token: bool) -> bool:
    """Whether a handshake with these headers may go on.

    Args:
        headers: of the handshake, names in lower case.
        has_token: a token in a header authenticates, which no page can make a browser send. Only
            then may the Origin be absent; a wrong one is refused even so.
    """
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if not origins:
        return has_token
    return len(origins) == 1 and origins[0] in settings.WEBSOCKET_ORIGINS
