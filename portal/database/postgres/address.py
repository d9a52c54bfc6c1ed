"""`DATABASE_URL`, also with several servers as libpq takes them: `postgres://me@one:5432,two:5432/homeport`."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import dj_database_url

_PORT = 5432
_CONNECT_S = 5  # of all servers together
_LEAST_S = 2  # libpq's


def parse(url: str, **options: Any) -> dict[str, Any]:
    """What Django's `DATABASES` says of it; `options` are those of dj_database_url.

    Raises:
        ValueError: it cannot be read.
    """
    split = urlsplit(url)
    person, at, where = split.netloc.rpartition("@")
    hosts = where.split(",")
    if len(hosts) > 1:
        url = urlunsplit(split._replace(netloc=f"{person}{at}{hosts[0]}"))
    found: dict[str, Any] = {**dj_database_url.parse(url, **options)}
    if len(hosts) > 1:
        each = [urlsplit(f"//{host}") for host in hosts]
        found["HOST"] = ",".join(one.hostname or "" for one in each)
        found["PORT"] = ",".join(str(one.port or _PORT) for one in each)
    return found


def connect_s(host: str) -> int:
    """Seconds for a connection to each of the servers in `HOST`: one after another is asked."""
    return max(_LEAST_S, _CONNECT_S // (host.count(",") + 1))
