"""Keeps the portal and the NodePorts on hosts of their own.

Cookies do not know ports (RFC 6265 section 8.5), so a service on 127.0.0.1:31000 would receive the
portal's cookie if the portal also answered on 127.0.0.1. Therefore browsers on 127.0.0.1 are sent
to `localhost`. Pods have a port of their own (portal/server/doors.py), where Host says nothing.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port

_LOOPBACK = "127.0.0.1"
# Asked by pod address, by name of a Service, by anything: the answers depend on no host.
_ANY_HOST = frozenset({"/healthz", "/livez", "/readyz", "/status"})
_PODS = "/internal/"
# Works without cookies (a token in a header), so the loopback address may serve it as well.
_WITHOUT_COOKIES = "/api/"


class HostMiddleware:
    """First of all middleware: decides by Host alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in _ANY_HOST or request.path.startswith(_PODS):
            # Django looks at Host again and would answer 400.
            request.META["HTTP_HOST"] = _LOOPBACK
            return self.get_response(request)
        host, port = split_domain_port(request.get_host())
        if host in settings.BROWSER_HOSTS:
            return self.get_response(request)
        if host == _LOOPBACK and request.path.startswith(_WITHOUT_COOKIES):
            return self.get_response(request)
        if host == _LOOPBACK and request.method in {"GET", "HEAD"}:
            where = f"localhost:{port}" if port else "localhost"
            return HttpResponseRedirect(f"http://{where}{request.get_full_path()}")
        raise Http404(f"nothing is served as {host}")


def is_served_host(header: str) -> bool:
    """Whether a Host header names the portal; the loopback address is for programs with a token."""
    host, _port = split_domain_port(header)
    return host == _LOOPBACK or host in settings.BROWSER_HOSTS
