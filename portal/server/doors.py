"""Two doors, told apart by the socket that a request came through and never by what it says.

People come by PORT, pods by POD_PORT. A pod may send any Host, path or upgrade, so nothing of that
can decide what it reaches: by the pods' door there is `/internal/`, and by the people's door there
is everything else. Websockets pass no Django middleware, so their Host is looked at here.
"""

from django.conf import settings

from portal.asgi_answer import CLOSE, App, Message, Receive, Send, send_error
from portal.web.hosts import is_served_host

PODS_PATH = "/internal/"


class Doors:
    """Stands in front of everything else."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        by_pods_door = is_by_pods_door(scope)
        if settings.HTTPS and not settings.TRUSTED_PROXIES:
            # Nobody's X-Forwarded-Proto is believed; what we know is how browsers come.
            scope["scheme"] = "wss" if scope["type"] == "websocket" else "https"
        if scope["type"] == "websocket":
            if by_pods_door or not _has_served_host(scope):
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
        elif by_pods_door != scope["path"].startswith(PODS_PATH):
            await send_error(send, 404, "not_found", "There is nothing at this address.", [CLOSE])
            return
        await self._app(scope, receive, send)


def is_by_pods_door(scope: Message) -> bool:
    """Whether a connection was made to POD_PORT: the server's own end of it says so."""
    server = scope.get("server")
    return server is not None and server[1] == settings.POD_PORT


def _has_served_host(scope: Message) -> bool:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and is_served_host(hosts[0].decode("latin-1"))
