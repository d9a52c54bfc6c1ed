"""The addresses of the probes as Django answers them, where `serve` has not answered before."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from portal.server import probes


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is looked at."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    code, body = probes.liveness()
    return JsonResponse(body, status=code)


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    code, body = probes.readiness()
    return JsonResponse(body, status=code)


@require_safe
def status(request: HttpRequest) -> JsonResponse:
    code, body = probes.status()
    return JsonResponse(body, status=code)
