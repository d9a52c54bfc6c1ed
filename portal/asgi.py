"""The ASGI application: HTTP by Django, websockets by Channels."""

import os
from typing import Any, cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
_django = get_asgi_application()

# What is imported below needs models, which exist only after the line above.
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from jobs.logs.consumers import websocket_urlpatterns as log_sockets
from portal.live_consumer import websocket_urlpatterns as live_sockets
from portal.store_door import StoreDoor
from tenants.sockets import NoSuchSocket

_other_sockets = [re_path("^.*", NoSuchSocket.as_asgi())]

# Origin and person are checked by the consumers themselves (portal/origins.py): a refusal must
# reach the browser as a close code, which a refused handshake cannot carry.
application = ProtocolTypeRouter(
    {
        "http": StoreDoor(cast(Any, _django)),
        "websocket": URLRouter([*log_sockets, *live_sockets, *_other_sockets]),
    }
)
