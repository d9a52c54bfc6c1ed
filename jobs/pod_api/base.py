"""What the views for pods under `/internal/v1/` have in common: JSON with a bearer token, mostly by POST.

No cookie is looked at. A refusal has a status, a code and a sentence, as in REST.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from msgspec import Meta

from jobs.models import Workload
from jobs.pod_api.callers import bearer_token
from portal.asgi_answer import report_pods
from portal.errors import Refused
from portal.log_lines import note

MAX_BODY_BYTES = 1024**2
MAX_BATCH = 500  # rows of one body, or of one answer

Position = Annotated[int, Meta(ge=0, le=2**62)]

Body = TypeVar("Body")
View = Callable[..., dict[str, Any] | HttpResponseBase]


def pod_view(
    find: Callable[[UUID, str], Workload], key: str, method: str = "POST"
) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """Makes a view that takes what a pod belongs to and answers JSON, or a response, into one of a request.

    Args:
        find: by id and token; raises Refused.
        key: name of the id in the address.
        method: the only one that is answered.
    """

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @csrf_exempt
        @wraps(view)
        def inner(request: HttpRequest, **where: Any) -> HttpResponseBase:
            try:
                if request.method != method:
                    raise Refused(f"only {method} is answered here", "method_not_allowed", 405)
                workload_id = where.pop(key)
                header = str(request.META.get("HTTP_AUTHORIZATION", ""))
                owner = find(workload_id, bearer_token(header))
                note(job=str(workload_id))
                report_pods(getattr(request, "scope", {}), owner.pod_count)
                found = view(request, owner, **where)
                return JsonResponse(found) if isinstance(found, dict) else found
            except Refused as error:
                rows = [one.as_dict() for one in error.errors]
                answer = JsonResponse({"errors": rows}, status=error.status)
                if error.retry_after_s is not None:
                    answer["Retry-After"] = str(error.retry_after_s)
                return answer

        return inner

    return decorate


def read_body(request: HttpRequest, kind: type[Body], most: int = MAX_BODY_BYTES) -> Body:
    """The body, checked.

    Args:
        most: bytes.

    Raises:
        Refused: too large, or not of this kind.
    """
    body = request.read(most + 1)
    if len(body) > most:
        raise Refused(f"a body has at most {most} bytes", "too_large", 413)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the body is not what is expected: {error}", "invalid", 400) from error
