"""Who we are to the cluster: kubeconfigs with tokens and certificates, and the pod's account."""

import base64
import ipaddress
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.config import incluster_config

from portal.cluster import credentials
from portal.cluster.client import Cluster
from portal.cluster.errors import CredentialsError, Unavailable
from tests.portal.cluster.fake_api import FakeApi
from tests.tools.kubeconfigs import write_kubeconfig


class Authority:
    """A CA that signs one server and one client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test ca")])
        self.pem = self._sign("test ca", self._key.public_key(), is_ca=True)
        (folder / "ca.crt").write_bytes(self.pem)

    def _sign(self, name: str, key: Any, *, is_ca: bool = False) -> bytes:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self, name: str) -> tuple[Path, Path]:
        """Certificate and key files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(self._sign(name, key.public_key()))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, private


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
