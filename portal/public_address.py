"""Under which addresses browsers reach the portal: scheme, host and port from one setting."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from portal import environment
from portal.errors import ConfigurationError

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class PublicAddress:
    """Attributes:
    hosts: names in lower case; the first is that of links.
    origins: scheme, host and port of each, as browsers write them.
    """

    hosts: tuple[str, ...]
    is_https: bool
    origins: tuple[str, ...]

    @property
    def url(self) -> str:
        return self.origins[0]


def read() -> PublicAddress:
    """What the environment says.

    Raises:
        ConfigurationError: PUBLIC_URL is no such address, or HTTPS says something else.
    """
    return resolve(
        environment.read("PUBLIC_URL"),
        environment.read("ALLOWED_HOSTS"),
        environment.read("HTTPS"),
        environment.read("PORT"),
    )


def resolve(public_url: str, more_hosts: list[str], https: bool | None, port: int) -> PublicAddress:
    """The addresses that follow from PUBLIC_URL, and those that other settings add.

    Args:
        public_url: empty: browsers come to the port itself, or to a load balancer at 443.
        more_hosts: of ALLOWED_HOSTS; they have the scheme and port of PUBLIC_URL.
        https: None: as PUBLIC_URL says.
        port: that the web server listens on.

    Raises:
        ConfigurationError: see `read`.
    """
    if not public_url:
        scheme, shown_port = ("https", 443) if https else ("http", port)
        hosts = more_hosts or ["localhost"]
    else:
        scheme, host, shown_port = _parts(public_url)
        if https is not None and https != (scheme == "https"):
            raise ConfigurationError(
                f"PUBLIC_URL={public_url!r} and HTTPS={'yes' if https else 'no'} contradict each "
                "other; leave HTTPS out, it follows from PUBLIC_URL"
            )
        hosts = [host, *more_hosts]
    names = tuple(dict.fromkeys(host.lower() for host in hosts))
    suffix = "" if shown_port == _DEFAULT_PORTS[scheme] else f":{shown_port}"
    origins = tuple(f"{scheme}://{name}{suffix}" for name in names)
    return PublicAddress(names, scheme == "https", origins)


def _parts(public_url: str) -> tuple[str, str, int]:
    wrong = ConfigurationError(
        f"PUBLIC_URL={public_url!r} is no address of a portal; write scheme, host and, where it is "
        "not the usual one, port, for example https://homeport.lab.example:8443"
    )
    try:
        parts = urlsplit(public_url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise wrong from error
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username, parts.password)
    if parts.scheme not in _DEFAULT_PORTS or not host or "*" in host or any(rest):
        raise wrong
    if port == 0:
        raise wrong
    shown = f"[{host}]" if ":" in host else host
    return parts.scheme, shown, port or _DEFAULT_PORTS[parts.scheme]
