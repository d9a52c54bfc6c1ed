"""Options: what the query string and DeleteOptions ask for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onebox.api.golang import unregistered
from onebox.api.resources import Obj
from onebox.api.rules import fields
from onebox.api.status import Cause, StatusError, bad_request, quote
from onebox.api.strategy import WriteOptions

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})
_POLICIES = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("Ignore", "Strict", "Warn")
MAX_GRACE_S = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 20
_LIMIT = 1 << 63
MAX_MANAGER_BYTES = 128


def flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean.

    Raises:
        StatusError: 400.
    """
    value = query.get(name, "")
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise bad_request(f"{name}={value!r} is neither true nor false")


def number(query: Mapping[str, str], name: str) -> int | None:
    """Read an integer, None when absent.

    Raises:
        StatusError: 400.
    """
    value = query.get(name)
    if value is None or value == "":
        return None
    if not _WHOLE.fullmatch(value):
        raise bad_request(f"strconv.ParseInt: parsing {quote(value)}: invalid syntax")
    if len(value) > _MAX_DIGITS or not -_LIMIT <= int(value) < _LIMIT:
        raise bad_request(f"strconv.ParseInt: parsing {quote(value)}: value out of range")
    return int(value)


def version(query: Mapping[str, str]) -> int | None:
    """Read resourceVersion, None when absent.

    Raises:
        StatusError: 400.
    """
    value = query.get("resourceVersion") or ""
    if not value:
        return None
    if value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS:
        return int(value)
    why = "invalid syntax" if not value.isdecimal() else "value out of range"
    raise bad_request(
        f"invalid resource version: resourceVersion: Invalid value: {quote(value)}: "
        f"strconv.ParseUint: parsing {quote(value)}: {why}"
    )


_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


def check_list_options(query: Mapping[str, str], *, is_watch: bool) -> None:
    """Check which options of a list or a watch go together.

    https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/apis/meta/internalversion/validation/validation.go

    Raises:
        StatusError: 400, 422.
    """
    match = query.get("resourceVersionMatch", "")
    initial = query.get("sendInitialEvents", "")
    flag(query, "sendInitialEvents")
    path, causes = "resourceVersionMatch", []
    if is_watch:
        if initial and match != _NOT_OLDER:
            text = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
            causes.append(fields.forbidden(path, text))
        if match and not initial:
            text = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            causes.append(fields.forbidden(path, text))
        if match and match != _NOT_OLDER:
            causes.append(fields.not_supported(path, match, (_NOT_OLDER,)))
    elif match and not query.get("resourceVersion"):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(fields.forbidden(path, text))
    if match and query.get("continue"):
        text = "resourceVersionMatch is forbidden when continue is provided"
        causes.append(fields.forbidden(path, text))
    if match and not is_watch:
        if match not in (_EXACT, _NOT_OLDER):
            causes.append(fields.not_supported(path, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and query.get("resourceVersion") == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(fields.forbidden(path, text))
    if initial and not is_watch:
        text = "sendInitialEvents is forbidden for list"
        causes.append(fields.forbidden("sendInitialEvents", text))
    if causes:
        raise _invalid_options("ListOptions", causes)


def _invalid_options(kind: str, causes: list[Cause]) -> StatusError:
    sentences = [f"{cause.field}: {cause.message}" for cause in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [cause.body() for cause in causes],
    }
    message = f'{kind}.meta.k8s.io "" is invalid: {text}'
    return StatusError(422, "Invalid", message, details)


def _dry_run(values: list[str]) -> tuple[bool, list[Cause]]:
    given = [value for value in values if value]
    if any(value != "All" for value in given):
        return False, [fields.not_supported("dryRun", given, ("All",))]
    return bool(given), []


def write_options(
    query: Mapping[str, str], user: str, kind: str, *, agent: str = "", is_apply: bool = False
) -> WriteOptions:
    """Read the options of a create, update or patch.

    Args:
        agent: the client's User-Agent, whose first word names it when it does not name itself.
        is_apply: of a server-side apply, which has to name its manager and may force.

    Raises:
        StatusError: 400, 422.
    """
    manager, force = query.get("fieldManager", ""), flag(query, "force")
    causes: list[Cause] = []
    if is_apply and not manager:
        causes.append(fields.required("fieldManager", "is required for apply patch"))
    if not is_apply and "force" in query and kind == "PatchOptions":
        text = "may not be specified for non-apply patch"
        causes.append(fields.forbidden("force", text))
    causes.extend(_check_manager(manager))
    dry_run, wrong = _dry_run([query.get("dryRun", "")])
    causes.extend(wrong)
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        cause = fields.not_supported("fieldValidation", validation, ("", *_VALIDATIONS))
        causes.append(cause)
    if causes:
        raise _invalid_options(kind, causes)
    return WriteOptions(
        dry_run=dry_run,
        field_validation=validation,
        user=user,
        manager=manager or _printable(agent.partition("/")[0]),
        force=force,
    )


def _check_manager(manager: str) -> list[Cause]:
    causes: list[Cause] = []
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        causes.append(fields.too_long("fieldManager", MAX_MANAGER_BYTES))
    for i, char in enumerate(manager):
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {i})"
            causes.append(fields.invalid("fieldManager", manager, text))
    return causes


def _printable(text: str) -> str:
    shown = "".join(char for char in text if char.isprintable())
    return shown.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a delete.

    Attributes:
        waits: a client that asks for this wants 202 while the object is still there.
    """

    propagation: str | None = None
    grace_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    waits: bool = False


def delete_options(query: Mapping[str, str], body: Any) -> DeleteOptions:
    """Read DeleteOptions; what the body says wins over the query, as with upstream.

    Raises:
        StatusError: 400, 422.
    """
    options = _checked_body(body)
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions is not an object")
    dry_run = options.get("dryRun") or [query.get("dryRun", "")]
    if not isinstance(dry_run, list):
        raise bad_request("dryRun is not a list")
    policy = options.get("propagationPolicy") or query.get("propagationPolicy") or None
    orphan = options.get("orphanDependents")
    if orphan is None and query.get("orphanDependents"):
        orphan = flag(query, "orphanDependents")
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is None:
        grace_s = number(query, "gracePeriodSeconds")
    _check_policy(policy, orphan)
    if isinstance(grace_s, str):
        field = "DeleteOptions.gracePeriodSeconds of type int64"
        raise bad_request(f"json: cannot unmarshal string into Go struct field {field}")
    if grace_s is not None and (not isinstance(grace_s, int) or abs(grace_s) > MAX_GRACE_S):
        raise bad_request(f"gracePeriodSeconds={grace_s!r} is not a number of seconds")
    waits = orphan is False
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    is_dry, wrong = _dry_run([str(value) for value in dry_run])
    if wrong:
        raise _invalid_options("DeleteOptions", wrong)
    return DeleteOptions(
        propagation=policy,
        grace_s=grace_s,
        waits=waits,
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        dry_run=is_dry,
    )


def _checked_body(body: Any) -> Obj:
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise bad_request("the body of a delete is a DeleteOptions object or nothing")
    kind = body.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        raise bad_request(unregistered(str(kind), str(body.get("apiVersion", ""))))
    return body


def _check_policy(policy: Any, orphan: Any) -> None:
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        cause = fields.invalid("propagationPolicy", policy, text)
        raise _invalid_options("DeleteOptions", [cause])
    if policy is not None and policy not in _POLICIES:
        cause = fields.not_supported("propagationPolicy", policy, (*_POLICIES, "nil"))
        raise _invalid_options("DeleteOptions", [cause])


def _text(mapping: Obj, key: str) -> str | None:
    value = mapping.get(key)
    return None if value is None else str(value)
