"""Who we are to the cluster: kubeconfigs with tokens and certificates, and the pod's account."""

import base64
import ssl
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import incluster_config

from portal.cluster import credentials
from portal.cluster.client import Cluster
from portal.cluster.errors import CredentialsError, Unavailable
from tests.portal.cluster.fake_api import FakeApi
from tests.tools.authority import Authority
from tests.tools.kubeconfigs import write_kubeconfig


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
async def tls_api(authority: Authority) -> AsyncIterator[FakeApi]:
    """Asks for a client certificate, as an API server may."""
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=authority.folder / "ca.crt"
    )
    context.load_cert_chain(*authority.pair("server"))
    context.verify_mode = ssl.CERT_REQUIRED
    api = FakeApi()
    await api.start(tls=context)
    yield api
    await api.stop()


async def test_a_client_certificate_opens_the_door(
    tls_api: FakeApi, authority: Authority, tmp_path: Path
):
    certificate, key = authority.pair("admin")
    user = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key": str(key),
    }
    cluster = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}
    path = write_kubeconfig(tmp_path / "kubeconfig", tls_api.url, user, cluster)
    client = await Cluster.connect(str(path))
    try:
        assert await client.list("Node") == []
    finally:
        await client.close()
    assert "Authorization" not in tls_api.asked[0].headers


async def test_a_server_of_another_authority_is_not_believed(
    tls_api: FakeApi, authority: Authority, tmp_path: Path
):
    other = Authority(tmp_path / "other")
    certificate, key = authority.pair("admin")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    cluster = {"certificate-authority": str(other.folder / "ca.crt")}
    path = write_kubeconfig(tmp_path / "kubeconfig", tls_api.url, user, cluster)
    client = await Cluster.connect(str(path))
    try:
        with pytest.raises(Unavailable, match=r"no connection to https.*certificate"):
            await client.list("Node")
    finally:
        await client.close()
    assert tls_api.asked == []


def test_the_pods_own_token_is_read_again_when_it_was_renewed(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.folder / "ca.crt"))
    found = credentials.load("")
    assert found.server == "https://10.96.0.1:443"
    assert found.authorization() == "Bearer first"
    token.write_text("second")
    assert found.authorization() == "Bearer first", "a file is not read for every call"
    later = datetime.now() + timedelta(minutes=2)  # noqa: DTZ005 (as the client's own clock)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Later":
            return cls.fromtimestamp(later.timestamp(), tz)

    monkeypatch.setattr(incluster_config.datetime, "datetime", Later)
    assert found.authorization() == "Bearer second"


@pytest.mark.parametrize(
    "text", ["", "{}", "clusters: [", "current-context: nowhere", "[1, 2]", "- a\n b: c"]
)
def test_a_broken_kubeconfig_is_a_sentence(tmp_path: Path, text: str):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(CredentialsError, match="set HOMEPORT_KUBECONFIG"):
        credentials.load(str(path))
