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
from portal.asgi_answer import Message
from portal.server.bodies import BodyDoor, FormHandler
from portal.server.doors import Doors
from portal.server.download_door import DownloadDoor
from portal.server.limits import RequestLimit
from portal.server.probes import Probes
from portal.server.request_threads import RequestThreads
from portal.server.requests import Requests
from portal.storage.folder_app import FolderStoreApp
from tenants.live_socket import websocket_urlpatterns as live_sockets
from tenants.sockets import Badge, NoSuchSocket, badge_of, find_sender

_django = RequestLimit(
    RequestThreads(cast(Any, FormHandler()), settings.WEB_THREADS, settings.WEB_WAIT_S)
)
_uploads = [reverse(name) for name in ("bundle-upload", "job-new", "api-bundles")]
# Those whose answers are streamed to people (tests/portal/routes/limits.py).
_downloads = ("job-log-download", "job-artifact", "audit-csv", "api-job-logs", "api-job-artifact")
_other_sockets = [re_path("^.*", NoSuchSocket.as_asgi())]


def _badge_of(scope: Message) -> Badge | None:
    """None: it shows nothing by which somebody could be signed in."""
    badge = badge_of(scope)
    return None if badge == Badge() else badge


# Origin and person are checked by the consumers themselves (portal/web/origins.py): a refusal must
# reach the browser as a close code, which a refused handshake cannot carry.
router = ProtocolTypeRouter(
    {
        "http": Probes(
            FolderStoreApp(
                BodyDoor(DownloadDoor(_django, _downloads, _badge_of), _uploads, find_sender)
            )
        ),
        "websocket": URLRouter([*log_sockets, *live_sockets, *_other_sockets]),
    }
)
application = Requests(Doors(cast(Any, router)))
