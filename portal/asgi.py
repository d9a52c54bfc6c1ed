"""The ASGI application: HTTP by Django, websockets by Channels."""

import os
from typing import Any, cast

import django
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

# What is imported below needs models, which exist only after the line above.
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path, reverse

from jobs.logs.consumers import websocket_urlpatterns as log_sockets
from jobs.pod_api.callers import find_caller
from portal.asgi_answer import Message, Receive, Send
from portal.server.bodies import BodyDoor, FormHandler
from portal.server.doors import PODS_PATH, Doors
from portal.server.download_door import DownloadDoor
from portal.server.limits import RequestLimit
from portal.server.pods_pace import PodsPace
from portal.server.probes import Probes
from portal.server.request_threads import RequestThreads
from portal.server.requests import Requests
from portal.storage.folder_app import FolderStoreApp
from tenants.live_socket import websocket_urlpatterns as live_sockets
from tenants.sockets import Badge, NoSuchSocket, badge_of, find_sender

_handler: Any = FormHandler()


def _django(threads: int) -> RequestLimit:
    """Django, in threads of its own."""
    return RequestLimit(RequestThreads(_handler, threads, settings.WEB_WAIT_S))


async def _nobody(scope: Message) -> None:
    """Pods upload nothing through Django."""


_uploads = [reverse(name) for name in ("bundle-upload", "job-new", "api-bundles")]
# Those whose answers are streamed to people (tests/portal/routes/limits.py).
_downloads = ("job-log-download", "job-artifact", "audit-csv", "api-job-logs", "api-job-artifact")
_other_sockets = [re_path("^.*", NoSuchSocket.as_asgi())]


def _badge_of(scope: Message) -> Badge | None:
    """None: it shows nothing by which somebody could be signed in."""
    badge = badge_of(scope)
    return None if badge == Badge() else badge


_people = BodyDoor(
    DownloadDoor(_django(settings.WEB_THREADS), _downloads, _badge_of), _uploads, find_sender
)
_pods = PodsPace(FolderStoreApp(BodyDoor(_django(settings.POD_THREADS), (), _nobody)), find_caller)


async def _by_door(scope: Message, receive: Receive, send: Send) -> None:
    """What pods ask keeps no thread and no place from people; `Doors` has looked who came by which."""
    app = _pods if scope["path"].startswith(PODS_PATH) else _people
    await app(scope, receive, send)


# Origin and person are checked by the consumers themselves (portal/web/origins.py): a refusal must
# reach the browser as a close code, which a refused handshake cannot carry.
router = ProtocolTypeRouter(
    {
        "http": Probes(_by_door),
        "websocket": URLRouter([*log_sockets, *live_sockets, *_other_sockets]),
    }
)
application = Requests(Doors(cast(Any, router)))
