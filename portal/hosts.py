"""Keeps the portal, the pods' door and the NodePorts on hosts of their own.

Cookies do not know ports (RFC 6265 section 8.5), so a service on 127.0.0.1:31000 would receive the
portal's cookie if the portal also answered on 127.0.0.1. Therefore browsers on 127.0.0.1 are sent
to `localhost`, and the host under which pods call serves `/internal/` and nothing else.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port

# Paths that work without cookies (a token in a header, or nothing), so any host may serve them.
_WITHOUT_COOKIES = ("/api/", "/healthz", "/readyz")


class HostMiddleware:
    """First of all middleware: decides by Host alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        host, port = split_domain_port(request.get_host())
        if host in settings.BROWSER_HOSTS or request.path.startswith("/internal/"):
            return self.get_response(request)
        if host == "127.0.0.1" and request.path.startswith(_WITHOUT_COOKIES):
            return self.get_response(request)
        if host == "127.0.0.1" and request.method in {"GET", "HEAD"}:
            where = f"localhost:{port}" if port else "localhost"
            return HttpResponseRedirect(f"http://{where}{request.get_full_path()}")
        raise Http404(f"{host} serves /internal/ only")
