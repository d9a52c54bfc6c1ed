"""By what a call of a pod is counted: nobody is counted as another, or takes another's turns."""

from collections.abc import Callable
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from jobs.kinds.interactive.tokens import app_token, portal_token, usage_token
from jobs.kinds.training.tokens import job_token
from jobs.pod_api.callers import bundles_caller, find_caller
from portal.asgi_answer import STRANGERS
from portal.storage.folder import STORE_PATH, FolderStore

ID, OTHER = (UUID(f"00000000-0000-4000-8000-00000000000{n}") for n in (1, 2))
TENANT = "00000000-0000-4000-8000-0000000000aa"


def caller(path: str, token: str = "", *, scheme: str = "Bearer", query: str = "") -> str:
    headers = [(b"authorization", f"{scheme} {token}".encode("latin-1"))] if token else []
    return find_caller(
        {"method": "GET", "path": path, "headers": headers, "query_string": query.encode()}
    )


CASES = [
    (f"jobs/{ID}/source/", job_token(ID), f"jobs/{ID}"),
    (f"jobs/{ID}/replicas/worker/0/1/usage/", job_token(ID), f"jobs/{ID}"),
    (f"jobs/{ID}/no/such/thing/", job_token(ID), f"jobs/{ID}"),
    (f"services/{ID}/gate/", portal_token(ID), f"services/{ID}"),
    (f"services/{ID}/usage/1/", usage_token(ID), f"services/{ID}/usage"),
    # It is a program's, so it may not keep the gate from asking.
    (f"services/{ID}/gate/", usage_token(ID), f"services/{ID}/usage"),
    (f"jobs/{OTHER}/source/", job_token(ID), STRANGERS),
    (f"jobs/{ID}/source/", portal_token(ID), STRANGERS),
    (f"services/{ID}/gate/", job_token(ID), STRANGERS),
    (f"services/{ID}/gate/", app_token(ID, 1), STRANGERS),
    (f"jobs/{ID}/source/", job_token(ID)[:-1], STRANGERS),
    (f"jobs/{ID}/source/", "", STRANGERS),
    (f"jobs/{ID}/source/", "t\u00f6ken", STRANGERS),
    (f"jobs/{'-' * 36}/source/", job_token(ID), STRANGERS),
    (f"jobs/{str(ID).upper()}x/source/", job_token(ID), STRANGERS),
    ("", job_token(ID), STRANGERS),
]


# Tokens are of a key that each process of these tests has made.
@pytest.mark.parametrize(("path", "token", "found"), CASES, ids=range(len(CASES)))
def test_a_token_counts_where_it_is_good(path: str, token: str, found: str) -> None:
    assert caller(f"/internal/v1/{path}", token) == found
    assert caller(f"/internal/v1/{path}", token, scheme="Token") == STRANGERS


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (f"{TENANT}/jobs/{ID}/logs/worker-0/1/000000001-a", f"jobs/{ID}"),
        (f"{TENANT}/bundles/{'a' * 64}", bundles_caller(UUID(TENANT))),
    ],
)
def test_a_link_counts_for_what_it_is_of(store: FolderStore, key: str, found: str) -> None:
    link = urlsplit(store.link_get(key).url)
    assert caller(link.path, query=link.query) == found
    changes: list[Callable[[str], str]] = [
        lambda query: query.replace("signature=", "signature=0"),
        lambda query: "",
        lambda query: query + "&expires=0",
    ]
    for change in changes:
        assert caller(link.path, query=change(link.query)) == STRANGERS
    assert caller(f"{STORE_PATH}{TENANT}/jobs/{OTHER}/a", query=link.query) == STRANGERS
