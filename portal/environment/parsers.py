"""How the text of a setting is read: each takes it and gives the value, or says in words what is wrong."""

import re

from portal.errors import ConfigurationError
from portal.pools import LABEL_KEY, LABEL_VALUE

PLAIN_HTTP, SHORT_KEY, NO_REDIS = "plain-http", "short-key", "no-redis"


def parse_bool(text: str) -> bool:
    """`1 true yes on` and `0 false no off`, any case.

    Raises:
        ConfigurationError: anything else.
    """
    word = text.strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off", ""}:
        return False
    raise ConfigurationError(
        f"{text!r} is neither yes nor no (allowed: 1 0 true false yes no on off)"
    )


def parse_optional_bool(text: str) -> bool | None:
    """As `parse_bool`; None for empty text."""
    return parse_bool(text) if text.strip() else None


def parse_accepted(text: str) -> list[str]:
    """Words of what is accepted although it is not safe.

    Raises:
        ConfigurationError: another word.
    """
    known = [PLAIN_HTTP, SHORT_KEY, NO_REDIS]
    words = parse_list(text)
    for word in words:
        if word not in known:
            raise ConfigurationError(f"{word!r} cannot be accepted (allowed: {' '.join(known)})")
    return words


def parse_labels(text: str) -> dict[str, str]:
    """`key=value` words, separated by commas or blanks.

    Raises:
        ConfigurationError: a word without `=`, or what Kubernetes takes for no label.
    """
    found = {}
    for word in parse_list(text):
        key, sign, value = word.partition("=")
        if not sign or not re.fullmatch(LABEL_KEY, key) or not re.fullmatch(LABEL_VALUE, value):
            raise ConfigurationError(f"{word!r} is no label; write for example component=web")
        found[key] = value
    return found


def parse_number(text: str) -> int:
    """A whole number.

    Raises:
        ConfigurationError: anything else.
    """
    try:
        return int(text)
    except ValueError as error:
        raise ConfigurationError("a whole number is needed") from error


def parse_days(text: str) -> int:
    """A whole number of days, from 0 to a hundred years.

    Raises:
        ConfigurationError: anything else; less than 0 would be a time to come.
    """
    days = parse_number(text)
    if not 0 <= days <= 36_500:
        raise ConfigurationError("a number of days from 0 to 36500 is needed")
    return days


def parse_port(text: str) -> int | None:
    """A number, or None for empty text.

    Raises:
        ConfigurationError: anything else.
    """
    return parse_number(text) if text.strip() else None


def parse_list(text: str) -> list[str]:
    """Comma or blank separated words; empty text is the empty list."""
    return text.replace(",", " ").split()


def parse_count(text: str) -> int:
    """A whole number, at least one.

    Raises:
        ConfigurationError: less than one, or no number.
    """
    count = parse_number(text)
    if count < 1:
        raise ConfigurationError("at least 1 is needed")
    return count


def parse_log_format(text: str) -> str:
    """`line` or `json`, any case.

    Raises:
        ConfigurationError: anything else.
    """
    word = text.strip().lower()
    if word not in {"line", "json"}:
        raise ConfigurationError("allowed: line json")
    return word


def parse_synchronous(text: str) -> str:
    """`full` or `normal`, any case, as SQLite's pragma takes it.

    Raises:
        ConfigurationError: anything else.
    """
    word = text.strip().lower()
    if word not in {"full", "normal"}:
        raise ConfigurationError("allowed: full normal")
    return word
