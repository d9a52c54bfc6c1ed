"""What a gate is told at its start: environment variables, and the files of its Secret."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobs.pod.errors import PodError
from jobs.pod.protocol import codes

# What manifests of before say by the kind alone: word, path that answers when the app is ready, and
# the secret that is the app's.
_OF_KINDS = {
    "notebook": ("notebook", "api", "app_token"),
    "tensorboard": ("TensorBoard", "", "portal_token"),
}


@dataclass(frozen=True)
class Config:
    """One gate's place in the world."""

    service_id: str  # UUID with hyphens, as in tickets
    start: int  # counts the starts of the service; cookies and tickets name it
    word: str  # what people call the app
    ready_path: str  # below the prefix; answered when the app is ready
    prefix: str  # "/s/0123abcd/"
    port: int
    upstream_port: int  # of the app, on 127.0.0.1
    portal_url: str
    portal_token: str = field(repr=False)
    ticket_key: bytes = field(repr=False)
    app_token: str = field(repr=False)  # empty: the app asks for none
    tls: ssl.SSLContext | None = None

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def cookie_name(self) -> str:
        """With the service in it, since a host's cookies are shared by all its ports."""
        return f"gate_{self.prefix.strip('/').rpartition('/')[2]}"


def read_config(environ: Mapping[str, str]) -> Config:
    """The configuration of this process.

    Raises:
        PodError: something is missing or malformed.
    """
    secrets = Path(_text(environ, "GATE_SECRETS"))
    word, ready_path, app_secret = _app(environ)
    prefix = _text(environ, "GATE_PREFIX")
    if not (prefix.startswith("/") and prefix.endswith("/") and len(prefix) > 2):
        raise _broken(f"GATE_PREFIX={prefix!r}: not a path like /s/0123abcd/")
    return Config(
        service_id=_text(environ, "GATE_SERVICE_ID"),
        start=_number(environ, "GATE_START"),
        word=word,
        ready_path=ready_path,
        prefix=prefix,
        port=_number(environ, "GATE_PORT"),
        upstream_port=_number(environ, "GATE_UPSTREAM_PORT"),
        portal_url=_text(environ, "GATE_PORTAL_URL").rstrip("/"),
        portal_token=_secret(secrets, "portal_token"),
        ticket_key=_secret(secrets, "ticket_key").encode(),
        # TensorBoard knows no token: it is never reached but through its gate.
        app_token=_secret(secrets, "app_token") if app_secret == "app_token" else "",
        tls=_tls(secrets),
    )


def _app(environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Word, ready path and secret of the app."""
    if "GATE_KIND" not in environ:
        word, app_secret = _text(environ, "GATE_WORD"), _text(environ, "GATE_APP_SECRET")
        return word, environ.get("GATE_READY_PATH", ""), app_secret
    kind = environ["GATE_KIND"]
    if kind not in _OF_KINDS:
        raise _broken(f"GATE_KIND={kind!r}: not one of {', '.join(_OF_KINDS)}")
    return _OF_KINDS[kind]


def _broken(text: str) -> PodError:
    return PodError(codes.CONFIGURATION_BROKEN, text)


def _text(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise _broken(f"{name} is not set")
    return value


def _number(environ: Mapping[str, str], name: str) -> int:
    text = _text(environ, name)
    if not (text.isascii() and text.isdigit()):
        raise _broken(f"{name}={text!r}: not a number")
    return int(text)


def _secret(folder: Path, name: str) -> str:
    try:
        text = (folder / name).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise _broken(f"{folder / name} cannot be read: {error}") from error
    if not text:
        # An empty key would make everybody's signature valid.
        raise _broken(f"{folder / name} is empty")
    return text


def _tls(folder: Path) -> ssl.SSLContext | None:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    if not certificate.exists() and not key.exists():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise _broken(f"{certificate} and its key cannot be used: {error}") from error
    return context
