"""Failures of the API, worded and shaped as upstream Kubernetes words them.

Every refusal is a `StatusError`; the HTTP server turns it into a `Status` body and an ERROR
watch event, controllers look at `code` and `reason`. The sentences follow
https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/errors/errors.go because clients
(and people) match on them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onebox.api.resources import Resource


class StatusError(Exception):
    """A request that the API refuses.

    Attributes:
        code: HTTP status code.
        reason: upstream's one-word machine-readable reason, for example "NotFound".
        message: the sentence for people.
        details: upstream's `details` object: name, group, kind, causes, retryAfterSeconds.
        continue_token: with which a list may go on all the same, "" for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = details or {}
        self._shows_details = details is not None
        self.continue_token = continue_token

    def body(self) -> dict[str, Any]:
        """Give the `Status` object that goes over the wire."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self._shows_details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def quote(text: str) -> str:
    """Quote a value as Go's %q does, for sentences that repeat what the user sent."""
    return json.dumps(text, ensure_ascii=False)


def _details(resource: Resource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> StatusError:
    """The named object does not exist."""
    text = f"{resource.group_resource} {quote(name)} not found"
    return StatusError(404, "NotFound", text, _details(resource, name))


def no_such_path() -> StatusError:
    """The URL names no kind or subresource that is served here."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, found: dict[str, Any]) -> StatusError:
    """A create under a name that is taken by `found`."""
    text = f"{resource.group_resource} {quote(name)} already exists"
    if "deletionTimestamp" in found["metadata"]:
        text = f"object is being deleted: {text}"
    return StatusError(409, "AlreadyExists", text, _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> StatusError:
    """A write based on a state that is no longer the current one."""
    text = f"Operation cannot be fulfilled on {resource.group_resource} {quote(name)}: {why}"
    return StatusError(409, "Conflict", text, _details(resource, name))


def unmet_precondition(resource: Resource, name: str, why: str) -> StatusError:
    """A delete that relies on another state; here upstream names the kind, not the resource."""
    text = f"Operation cannot be fulfilled on {resource.kind} {quote(name)}: {why}"
    if resource.group:
        text = text.replace(resource.kind, f"{resource.kind}.{resource.group}", 1)
    details = {**_details(resource, name), "kind": resource.kind}
    return StatusError(409, "Conflict", text, details)


STALE_OBJECT = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def forbidden(
    resource: Resource, name: str, why: str, causes: Sequence[dict[str, str]] = ()
) -> StatusError:
    """A write that admission does not allow."""
    subject = f"{resource.group_resource} {quote(name)}" if name else resource.group_resource
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def bad_request(message: str) -> StatusError:
    """A request that cannot be understood."""
    return StatusError(400, "BadRequest", message)


def expired(message: str, continue_token: str = "") -> StatusError:
    """A resourceVersion older than the history that is kept."""
    return StatusError(410, "Expired", message, continue_token=continue_token)


def too_large_version(wanted: int, current: int) -> StatusError:
    """A resourceVersion that is still to come."""
    text = "Too large resource version"
    causes = [{"reason": "ResourceVersionTooLarge", "message": text}]
    return StatusError(
        504,
        "Timeout",
        f"Timeout: {text}: {wanted}, current: {current}",
        {"causes": causes, "retryAfterSeconds": 1},
    )


def internal(message: str) -> StatusError:
    """A failure of the server itself."""
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})


def unauthorized() -> StatusError:
    """A request without a token that onebox knows."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def too_large(limit_bytes: int) -> StatusError:
    """A body above the limit."""
    text = f"Request entity too large: limit is {limit_bytes}"
    return StatusError(413, "RequestEntityTooLarge", text)


def unsupported_media_type(message: str) -> StatusError:
    """A body in a format that is not read here."""
    return StatusError(415, "UnsupportedMediaType", message)


def unsupported_patch() -> StatusError:
    """A patch of a kind that is not known."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def not_acceptable() -> StatusError:
    """A client that wants a format that is not written here."""
    text = "406: Not Acceptable\n\nAvailable representations: application/json"
    return StatusError(406, "NotAcceptable", text, {})


def invalid_patch(result: str, why: str) -> StatusError:
    """A patch whose result is no object of the kind."""
    cause = Cause("FieldValueInvalid", "patch", f"Invalid value: {quote(result)}: {why}")
    text = f' "" is invalid: {cause.field}: {cause.message}'
    return StatusError(422, "Invalid", text, {"causes": [cause.body()]})


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that validation refuses.

    Attributes:
        type: upstream's FieldValueInvalid, FieldValueRequired, ...
        field: path as `spec.containers[0].name`.
        message: what is wrong, starting with upstream's words ("Invalid value: ...").
    """

    type: str
    field: str
    message: str

    def body(self) -> dict[str, str]:
        """Give the entry of `details.causes`."""
        return {"reason": self.type, "message": self.message, "field": self.field}


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> StatusError:
    """An object that does not pass validation; all fields at fault are named at once."""
    sentences = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    text = sentences[0] if len(sentences) == 1 else "[" + ", ".join(sentences) + "]"
    subject = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [cause.body() for cause in causes]
    return StatusError(422, "Invalid", f"{subject} {quote(name)} is invalid: {text}", details)
