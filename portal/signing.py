"""What is derived from the signing key, by the key in use and by those of before it."""

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac


def derived(salt: str, value: str, key: str = "") -> str:
    """64 hex digits; by the key in use where none is given."""
    secret = key or settings.SECRET_KEY
    return salted_hmac(salt, value, secret=secret, algorithm="sha256").hexdigest()


def is_derived(salt: str, value: str, found: str) -> bool:
    """Whether any key has made it: pods keep the tokens with which they were started."""
    return any(constant_time_compare(derived(salt, value, key), found) for key in _keys())


def key_mark() -> str:
    """By which `key_of` knows the key in use again."""
    return _mark(settings.SECRET_KEY)


def key_of(mark: str) -> str:
    """The key of a mark; without one, as of before there were marks, the oldest."""
    if not mark:
        return _keys()[-1]
    return next((key for key in _keys() if _mark(key) == mark), settings.SECRET_KEY)


def is_known(mark: str) -> bool:
    """Whether the key of a mark is in use, or is one of those of before it."""
    return any(_mark(key) == mark for key in _keys())


def _keys() -> tuple[str, ...]:
    return (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


def _mark(key: str) -> str:
    return derived("homeport.key", "", key)[:8]
