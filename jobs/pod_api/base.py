"""What the views for pods under `/internal/v1/` have in common: POST of JSON with a bearer token.

No cookie is looked at. A refusal has a status, a code and a sentence, as in REST.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

MAX_BODY_BYTES = 1024**2

Body = TypeVar("Body")
Owner = TypeVar("Owner")


class PodApiError(Exception):
    """A refusal: its status, a code and a sentence."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


def pod_view(
    find: Callable[[UUID, str], Owner], key: str
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., HttpResponse]]:
    """Makes a view that takes what a pod belongs to and answers JSON into one of a request.

    Args:
        find: by id and token; raises PodApiError.
        key: name of the id in the address.
    """

    def decorate(view: Callable[..., dict[str, Any]]) -> Callable[..., HttpResponse]:
        @csrf_exempt
        @wraps(view)
        def inner(request: HttpRequest, **where: Any) -> HttpResponse:
            try:
                if request.method != "POST":
                    raise PodApiError(405, "method_not_allowed", "only POST is answered here")
                owner = find(where.pop(key), _bearer_token(request))
                return JsonResponse(view(request, owner, **where))
            except PodApiError as error:
                row = {"field": "", "code": error.code, "text": str(error)}
                return JsonResponse({"errors": [row]}, status=error.status)

        return inner

    return decorate


def read_body(request: HttpRequest, kind: type[Body]) -> Body:
    """The body, checked.

    Raises:
        PodApiError: too large, or not of this kind.
    """
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise PodApiError(413, "too_large", f"a body has at most {MAX_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PodApiError(400, "invalid", f"the body is not what is expected: {error}") from error


def _bearer_token(request: HttpRequest) -> str:
    """The token of the request; empty: none."""
    word, _, token = str(request.META.get("HTTP_AUTHORIZATION", "")).partition(" ")
    return token.strip() if word == "Bearer" else ""
