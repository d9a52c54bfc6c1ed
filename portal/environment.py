"""Every setting that an operator can give by environment variable, in one table.

`portal/settings.py` reads its values here, `docs/settings.md` lists the same rows, and a test
holds the two together.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class SettingError(ValueError):
    """A variable has a value that cannot be used; the text names both and says what is allowed."""


def parse_bool(text: str) -> bool:
    """`1 true yes on` and `0 false no off`, any case.

    Raises:
        SettingError: anything else.
    """
    word = text.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off", ""}:
        return False
    raise SettingError(f"{text!r} is neither yes nor no (allowed: 1 0 true false yes no on off)")


def parse_list(text: str) -> list[str]:
    """Comma or blank separated words; empty text is the empty list."""
    return text.replace(",", " ").split()


@dataclass(frozen=True)
class Setting:
    """One row: the variable, its default as text, how it is read, and what it means."""

    name: str
    default: str
    meaning: str
    parse: Callable[[str], Any] = str


SETTINGS: tuple[Setting, ...] = (
    Setting("HOMEPORT_HOME", "./var", "folder for the database, the object store and secrets"),
    Setting("PORT", "8000", "port of the web server on this machine", int),
    Setting("LISTEN", "127.0.0.1", "address that the web server listens on"),
    Setting(
        "HOMEPORT_SECRET_KEY", "", "signing key; generated into HOMEPORT_HOME (0600) when empty"
    ),
    Setting(
        "ALLOWED_HOSTS", "localhost", "host names under which browsers reach the portal", parse_list
    ),
    Setting(
        "TRUSTED_PROXIES",
        "",
        "addresses of load balancers whose X-Forwarded-For says where people come from",
        parse_list,
    ),
    Setting("HTTPS", "no", "the portal is served by HTTPS: secure cookies and HSTS", parse_bool),
    Setting("DEBUG", "no", "error pages with code; for development only", parse_bool),
    Setting("DATABASE_URL", "", "database; SQLite in HOMEPORT_HOME when empty"),
    Setting("REDIS_URL", "", "channel layer of several web processes; in memory when empty"),
    Setting("S3_BUCKET", "", "bucket of the object store; a folder in HOMEPORT_HOME when empty"),
    Setting("S3_ENDPOINT", "", "URL of an S3 server other than Amazon's"),
    Setting(
        "S3_POD_ENDPOINT",
        "",
        "URL under which pods reach the S3 server, when it is not S3_ENDPOINT",
    ),
    Setting("S3_REGION", "us-east-1", "region of the bucket"),
    Setting("HOMEPORT_KUBECONFIG", "", "kubeconfig of the cluster; in-cluster account when empty"),
    Setting(
        "PURGE_KUBECONFIG",
        "",
        "kubeconfig of the account that removes purged namespaces and volumes; the same account as "
        "for everything else when empty",
    ),
    Setting(
        "WEB_KUBECONFIG",
        "",
        "kubeconfig of the account with which the web server reads logs; the same account as for "
        "everything else when empty",
    ),
    Setting(
        "POD_PORTAL_URL",
        "",
        "URL under which pods reach the portal; http://10.244.0.1:8000 when empty",
    ),
    Setting("STORAGE_CLASS", "glusterfs", "StorageClass of data and log volumes"),
    Setting("NODE_HOST", "127.0.0.1", "host name of a node, for links to NodePorts"),
    Setting(
        "GATE_TLS_CERT_FILE",
        "",
        "certificate (PEM) of NODE_HOST, with which notebooks and TensorBoards answer by HTTPS",
    ),
    Setting("GATE_TLS_KEY_FILE", "", "private key (PEM) of that certificate"),
    Setting("NODE_CIDRS", "", "addresses of nodes, for network policies", parse_list),
    Setting("CLIENT_CIDRS", "", "addresses of browsers, for network policies", parse_list),
    Setting(
        "CLUSTER_CIDRS",
        "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
        "networks that user pods may not reach",
        parse_list,
    ),
    Setting("CATALOG", "", "YAML file with images, sizes, quotas; the built-in one when empty"),
    Setting("BUNDLE_MAX_BYTES", str(512 * 1024**2), "largest upload of code, bytes", int),
    Setting(
        "LOG_ARCHIVE_MAX_BYTES",
        str(2 * 1024**3),
        "largest archived log of one replica, bytes; beyond it the middle is dropped and counted",
        int,
    ),
    Setting(
        "ARTIFACTS_MAX_BYTES",
        str(5 * 1024**3),
        "most bytes of artifacts that are kept per training; the rest stays on the log volume",
        int,
    ),
    Setting("OIDC_ISSUER", "", "OpenID Connect provider for signing in; passwords only when empty"),
    Setting("OIDC_CLIENT_ID", "", "what the provider calls this portal"),
    Setting("OIDC_CLIENT_SECRET", "", "the secret that the provider gave for it"),
    Setting("OIDC_NAME", "single sign-on", "what people call the provider, on the button"),
    Setting("OIDC_SCOPES", "openid profile email", "what the provider is asked for", parse_list),
    Setting("OIDC_GROUPS_CLAIM", "groups", "where the provider says somebody's groups"),
    Setting(
        "OIDC_ALLOWED_GROUP", "", "only this group may sign in by the provider; all when empty"
    ),
    Setting(
        "OIDC_ADMIN_GROUP",
        "",
        "members are admins, others are not, at each sign-in; admins are chosen here when empty",
    ),
    Setting(
        "HOMEPORT_DEMO_PASSWORD",
        "",
        "password of the demo accounts; generated into HOMEPORT_HOME (0600) when empty",
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def read(name: str) -> Any:
    """The parsed value of one variable, or of its default.

    Raises:
        SettingError: the variable holds what its parser refuses; the text names the variable.
    """
    setting = _BY_NAME[name]
    text = os.environ.get(name, setting.default)
    try:
        return setting.parse(text)
    except ValueError as error:
        raise SettingError(f"{name}={text!r}: {error}") from error


def home() -> Path:
    """HOMEPORT_HOME as an absolute path; made (0700) when missing."""
    path = Path(read("HOMEPORT_HOME")).resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """The text of a secret kept in a file of mode 0600, made at first use.

    Two processes that start together agree: the file is created exclusively.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        text = make()
        file.write(text + "\n")
    return text
