"""What a program in a pod is told where the portal or the store cannot be asked."""

import http.client
import io
from typing import Any

import pytest

from jobs.pod.portal_client import PortalClient, PortalError


@pytest.mark.parametrize(
    "error",
    [
        # ssl.CertificateError was one of these until Python 3.7, which images bring too.
        ValueError("hostname 's3.lab' doesn't match 'other.lab'"),
        ConnectionRefusedError("refused"),
        http.client.BadStatusLine("no HTTP"),
    ],
)
def test_a_connection_that_fails_in_any_way_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_words: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", fails)
    link = {"url": "https://s3.lab/a?signature=secret"}
    with pytest.raises(PortalError, match=r"https://s3\.lab does not answer") as told:
        PortalClient("https://portal.lab", "token").put(link, io.BytesIO(b"abc"), 3)
    assert told.value.status == 0
    assert "secret" not in str(told.value)
