"""Whose call one is that came by the pods' door, before anything of it is read: by token or link, without the database.

Each kind of token is counted apart: a notebook's program, which can read the one by which use is reported, takes nothing
from its gate.
"""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl
from uuid import UUID

from jobs.kinds.interactive.tokens import is_portal_token, is_usage_token
from jobs.kinds.training.tokens import is_job_token
from portal.asgi_answer import STRANGERS, Message
from portal.storage import get_store
from portal.storage.folder import STORE_PATH, FolderStore
from portal.storage.store import StoreError

_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_OWN = re.compile(rf"/internal/v1/(jobs|services)/({_ID})/")
# As `archive_prefix` has it. Other links are of a namespace's uploads.
_STORED = re.compile(rf"[^/]+/(jobs/{_ID}|[^/]+)/")
_TOKENS: dict[str, dict[str, Callable[[UUID, str], bool]]] = {
    "jobs": {"": is_job_token},
    "services": {"": is_portal_token, "/usage": is_usage_token},
}


def bundles_caller(tenant_id: UUID) -> str:
    """By what links of a namespace's uploads are counted."""
    return f"{tenant_id}/bundles/"


def bearer_token(header: str) -> str:
    """The token of an `Authorization`; empty: none."""
    word, _, token = header.partition(" ")
    return token.strip() if word == "Bearer" else ""


def find_caller(scope: Message) -> str:
    """`jobs/ID` and the like; all together are `STRANGERS` whose token or link is not valid."""
    path: str = scope["path"]
    if path.startswith(STORE_PATH):
        return _of_link(scope, path[len(STORE_PATH) :])
    own = _OWN.match(path)
    if own is None:
        return STRANGERS
    headers = dict(scope["headers"])
    token = bearer_token(headers.get(b"authorization", b"").decode("latin-1"))
    kind, identity = own.groups()
    for which, is_good in _TOKENS[kind].items():
        if token and is_good(UUID(identity), token):
            return f"{kind}/{identity}{which}"
    return STRANGERS


def _of_link(scope: Message, key: str) -> str:
    store = get_store()
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    found = _STORED.match(key)
    if found is None or not isinstance(store, FolderStore):
        return STRANGERS
    try:
        store.read_link(scope["method"], key, query)
    except StoreError:
        return STRANGERS
    return found[1] if found[1].startswith("jobs/") else found[0]
