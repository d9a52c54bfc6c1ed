"""Rules for names, labels and other short texts; each gives the sentences of what is wrong.

https://github.com/kubernetes/apimachinery/tree/v0.36.3/pkg/api/validate/content and
.../pkg/util/validation/validation.go
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_header = re.compile(_HEADER).fullmatch
_is_port_name = re.compile("[-a-z0-9]+").fullmatch
_is_printable = re.compile("[ -<>-~]+").fullmatch


def _regex(message: str, pattern: str, *examples: str) -> str:
    # Two blanks, as upstream's sentence has them.
    shown = "  or ".join(f"'{example}'," for example in examples)
    return f"{message} (e.g. {shown} regex used for validation is '{pattern}')"


def _limit(value: str, limit: int, unit: str = "bytes") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def dns_label(value: str) -> list[str]:
    """Check a DNS-1123 label: namespaces, containers, volumes, hostnames."""
    if len(value) <= 63 and _is_label(value):
        return []
    errors = _limit(value, 63, "characters")
    if not _is_label(value):
        if _is_subdomain(value):
            errors.append("must not contain dots")
        else:
            errors.append(
                _regex(
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters "
                    "or '-', and must start and end with an alphanumeric character",
                    _LABEL,
                    "my-name",
                    "123-abc",
                )
            )
    return errors


def dns_subdomain(value: str) -> list[str]:
    """Check a DNS-1123 subdomain: the names of most kinds."""
    if len(value) <= 253 and _is_subdomain(value):
        return []
    errors = _limit(value, 253, "characters")
    if not _is_subdomain(value):
        errors.append(
            _regex(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                "characters, '-' or '.', and must start and end with an alphanumeric character",
                _SUBDOMAIN,
                "example.com",
            )
        )
    return errors


def path_segment(value: str) -> list[str]:
    """Check a name that is free but for what would break a URL: roles and bindings."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


@lru_cache(maxsize=1024)
def _label_key(value: str) -> tuple[str, ...]:
    errors: list[str] = []
    message = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
        "with an alphanumeric character"
    )
    examples = ("MyName", "my.name", "123-abc")
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = "a valid label key " + _regex(message, _KEY, *examples)
        return (
            f"{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif prefix:
        errors.extend(f"prefix part {error}" for error in dns_subdomain(prefix))
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors.extend(f"name part {error}" for error in _limit(name, 63))
    if not _is_key(name):
        errors.append("name part " + _regex(message, _KEY, *examples))
    return tuple(errors)


def label_key(value: str) -> list[str]:
    """Check the key of a label, an annotation, a resource, a finalizer."""
    return list(_label_key(value))


def label_value(value: str) -> list[str]:
    """Check the value of a label."""
    if len(value) <= 63 and _is_value(value):
        return []
    errors = _limit(value, 63)
    if not _is_value(value):
        errors.append(
            _regex(
                "a valid label must be an empty string or consist of alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character",
                _VALUE,
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return errors


def config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or a Secret, which becomes a file name."""
    errors = _limit(value, 253, "characters")
    if not _is_config_key(value):
        errors.append(
            _regex(
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                _CONFIG_KEY,
                "key.name",
                "KEY_NAME",
                "key-name",
            )
        )
    if value == ".":
        errors.append("must not be '.'")
    elif value == "..":
        errors.append("must not be '..'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name(value: str) -> list[str]:
    """Check the name of an environment variable."""
    if _is_printable(value):
        return []
    text = "a valid environment variable name must consist only of printable ASCII characters"
    return [f"{text} other than '='"]


def port_number(value: int) -> list[str]:
    """Check a port."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name(value: str) -> list[str]:
    """Check the IANA name of a port."""
    errors = []
    if len(value) > 15:
        errors.append("must be no more than 15 characters")
    if not _is_port_name(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def header_name(value: str) -> list[str]:
    """Check the name of an HTTP header."""
    if _is_header(value):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [_regex(text, _HEADER, "X-Header-Name")]


def ip_address(value: str) -> list[str]:
    """Check an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []
