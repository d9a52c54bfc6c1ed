"""Whether a request may have come from a page of the app itself, by what browsers say of it.

Another notebook on another port of the same host is the same *site*, so a SameSite cookie goes
along with its requests; only the origin (scheme, host and port) tells the two apart. The Host
header is what the browser was told to open, whatever address translation lies between.
"""

from collections.abc import Mapping, Sequence

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FRAMES = frozenset({"iframe", "frame", "embed", "object"})


def is_own_origin(origins: Sequence[str], *, scheme: str, host: str) -> bool:
    """Whether there is exactly one Origin header, and it is exactly this place."""
    return len(origins) == 1 and bool(host) and origins[0] == f"{scheme}://{host}"


def is_allowed(
    method: str, origins: Sequence[str], fetch: Mapping[str, str], *, scheme: str, host: str
) -> bool:
    """Whether a request other than a websocket may pass.

    Args:
        origins: all Origin headers.
        fetch: headers; of interest are `Sec-Fetch-*`, which browsers send to trustworthy places
            only, so that they can add a refusal but never replace the Origin.
    """
    if origins or method not in SAFE_METHODS:
        return is_own_origin(origins, scheme=scheme, host=host)
    if fetch.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}:
        return True
    # A link on another site may be followed, but its page may neither load nor frame ours.
    return fetch.get("Sec-Fetch-Mode") == "navigate" and fetch.get("Sec-Fetch-Dest") not in _FRAMES
