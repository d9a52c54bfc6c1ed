"""What all REST answers share: one error form, one pagination, the caller's address."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions, serializers
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_exception_handler

from portal.errors import FieldError, NotAllowedError, Refused
from portal.version import VERSION
from portal.web.streaming import AbsentError


class FeaturesMiddleware:
    """Says in every answer of REST what a client cannot find out by trying, as `Tus-Extension` does.

    Who sends an `Idempotency-Key` again to a portal that does not know it does a thing twice, and one that does
    not know `dry_run` would submit.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        if request.path.startswith("/api/"):
            answer.headers["Homeport-Features"] = "idempotency-key, dry-run, document"
            answer.headers["Homeport-Version"] = VERSION
        return answer


class Pagination(PageNumberPagination):
    """`count, next, previous, results`; `page`, `page_size` (50, at most 200)."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200


def _flatten(detail: Any, path: str = "") -> list[FieldError]:
    """DRF's nested details as a flat list."""
    if isinstance(detail, dict):
        return [
            error
            for key, value in detail.items()
            for error in _flatten(
                value, path if key == "non_field_errors" else f"{path}.{key}" if path else str(key)
            )
        ]
    if isinstance(detail, list):
        return [error for value in detail for error in _flatten(value, path)]
    return [FieldError(path, str(getattr(detail, "code", "invalid")), str(detail))]


def read(body: serializers.BaseSerializer[Any]) -> Any:
    """The checked values of a body.

    Raises:
        Refused: with every error found, by field.
    """
    if not body.is_valid():
        raise Refused(_flatten(body.errors))
    return body.validated_data


def text_asked(asked: Mapping[str, str], name: str) -> str:
    """What a query looks for; no name has a NUL, and some databases do not take one."""
    return asked.get(name, "").replace("\0", "\ufffd")


def _body(errors: Iterable[FieldError], next_step: str = "") -> dict[str, Any]:
    told = [error.as_dict() for error in errors]
    if next_step:
        told[-1]["text"] += f" {next_step}"
    return {"errors": told}


def exception_handler(exc: Exception, context: dict[str, Any]) -> Response | None:
    """Every refusal as `{"errors": [{"field", "code", "text"}]}`."""
    if isinstance(exc, Refused):
        answer = Response(_body(exc.errors, exc.next_step), status=exc.status)
        if exc.retry_after_s is not None:
            answer.headers["Retry-After"] = str(exc.retry_after_s)
        return answer
    if isinstance(exc, AbsentError):
        exc = exceptions.NotFound(str(exc))
    elif isinstance(exc, Http404):
        exc = exceptions.NotFound("there is nothing here, or it is not yours")
    elif isinstance(exc, PermissionDenied):
        text = exc.rest_text if isinstance(exc, NotAllowedError) else str(exc)
        exc = exceptions.PermissionDenied(text or "you may not do this")
    response = drf_exception_handler(exc, context)
    if response is None:
        return None
    # The handler of DRF answers these only; what it was not given an answer for is a failure.
    assert isinstance(exc, exceptions.APIException)
    response.data = _body(_flatten(exc.detail))
    return response


def source_address(request: Request | HttpRequest) -> str:
    """Where the request came from, for the audit trail."""
    return str(request.META.get("REMOTE_ADDR", ""))
