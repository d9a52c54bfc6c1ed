"""Encrypts the values of a secret for their way from the web process to the reconciler.

With a key derived from SECRET_KEY, so that neither the database nor a copy of it has them in plain text.
"""

import base64
import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac


def seal(values: Mapping[str, str]) -> str:
    """The values as a token that `unseal` reads."""
    return _cipher().encrypt(json.dumps(values).encode()).decode()


def unseal(token: str) -> dict[str, str] | None:
    """The values; None: SECRET_KEY is another one by now, and none of SECRET_KEY_FALLBACKS is the one of then."""
    try:
        values: dict[str, str] = json.loads(_cipher().decrypt(token))
    except InvalidToken:
        return None
    return values


def _cipher() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    derived = (salted_hmac("homeport.secrets", "", secret=key, algorithm="sha256") for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(one.digest())) for one in derived])
