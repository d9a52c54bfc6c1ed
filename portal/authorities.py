"""The file of certificate authorities that people's pods are given: read, and judged before they have it."""

import ssl
from pathlib import Path

from portal.errors import ConfigurationError

# What the values of a ConfigMap may hold together.
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
MAX_BYTES = 1024**2


def read_authorities(path: str) -> str:
    """Its text: certificates as PEM, with whatever stands between them.

    Raises:
        ConfigurationError: pods could not use it, or are not to see it; the text names the setting.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        size = f"has {len(data):,} bytes, and a ConfigMap holds at most {MAX_BYTES:,}"
        raise _unusable(path, f"{size}; leave out authorities that no pod needs")
    try:
        text = data.decode()
        # Certificates are ASCII; names of authorities that stand above them need not be.
        bare = text.encode("ascii", "replace").decode()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=bare)
    except (ValueError, ssl.SSLError) as error:
        raise _unusable(path, f"holds no certificates that can be read (PEM): {error}") from error
    if "PRIVATE KEY-----" in text:
        raise _unusable(path, "holds a private key, which every pod would be given")
    return text


def _unusable(path: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"POD_AUTHORITIES_FILE={path!r} {why}")
