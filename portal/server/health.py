"""The addresses of the probes as Django answers them, where `serve` has not answered before."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from portal.server import probes


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is looked at."""
    return HttpResponse("ok\n", content_type="text/plain")


def _told_by(look: Callable[[], probes.Found]) -> Callable[[HttpRequest], HttpResponse]:
    @require_safe
    def view(request: HttpRequest) -> HttpResponse:
        code, body = look()
        return JsonResponse(body, status=code)

    return view


livez, readyz, status = map(_told_by, (probes.liveness, probes.readiness, probes.status))
