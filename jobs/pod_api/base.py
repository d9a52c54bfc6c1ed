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

from portal.errors import Refused

MAX_BODY_BYTES = 1024**2

Body = TypeVar("Body")
Owner = TypeVar("Owner")


def pod_view(
    find: Callable[[UUID, str], Owner], key: str
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., HttpResponse]]:
    """Makes a view that takes what a pod belongs to and answers JSON into one of a request.

    Args:
        find: by id and token; raises Refused.
        key: name of the id in the address.
    """

    def decorate(view: Callable[..., dict[str, Any]]) -> Callable[..., HttpResponse]:
        @csrf_exempt
        @wraps(view)
        def inner(request: HttpRequest, **where: Any) -> HttpResponse:
            try:
                if request.method != "POST":
                    raise Refused("only POST is answered here", "method_not_allowed", 405)
                owner = find(where.pop(key), _bearer_token(request))
                return JsonResponse(view(request, owner, **where))
            except Refused as error:
                rows = [one.as_dict() for one in error.errors]
                return JsonResponse({"errors": rows}, status=error.status)

        return inner

    return decorate


def read_body(request: HttpRequest, kind: type[Body]) -> Body:
    """The body, checked.

    Raises:
        Refused: too large, or not of this kind.
    """
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise Refused(f"a body has at most {MAX_BODY_BYTES} bytes", "too_large", 413)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the body is not what is expected: {error}", "invalid", 400) from error


def _bearer_token(request: HttpRequest) -> str:
    """The token of the request; empty: none."""
    word, _, token = str(request.META.get("HTTP_AUTHORIZATION", "")).partition(" ")
    return token.strip() if word == "Bearer" else ""
