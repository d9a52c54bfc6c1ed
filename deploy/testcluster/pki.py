"""Keys, certificates and kubeconfigs of a throw-away control plane on loopback.

The names follow Kubernetes' own: the authenticator reads user and groups from CN and O.
https://kubernetes.io/docs/setup/best-practices/certificates/
"""

from __future__ import annotations

import base64
import ipaddress
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 30
FIRST_SERVICE_ADDRESS = "10.96.0.1"
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def _subject(name: str, groups: tuple[str, ...] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not is_authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass
class Authority:
    """A certificate authority whose files lie in one private folder."""

    folder: Path
    name: str
    _key: ec.EllipticCurvePrivateKey = field(init=False, repr=False)
    _certificate: x509.Certificate = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(self.name)
        self._certificate = (
            self._builder(subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        _write_private(self.certificate_file, self.pem)
        _write_private(self.key_file, _key_pem(self._key))

    @property
    def certificate_file(self) -> Path:
        return self.folder / f"{self.name}.crt"

    @property
    def key_file(self) -> Path:
        return self.folder / f"{self.name}.key"

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, file: str, user: str, *groups: str) -> tuple[Path, Path]:
        """Make a client's certificate and key; returns their paths."""
        return self._issue(file, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def server(
        self, file: str, names: tuple[str, ...], addresses: tuple[str, ...]
    ) -> tuple[Path, Path]:
        """Make a server's certificate and key; returns their paths."""
        known: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        known += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self._issue(file, _subject(file), ExtendedKeyUsageOID.SERVER_AUTH, tuple(known))

    def _issue(
        self,
        file: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: tuple[x509.GeneralName, ...],
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        certificate_file, key_file = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        _write_private(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(key_file, _key_pem(key))
        return certificate_file, key_file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_subject(self.name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    """Write a file for the owner's eyes only."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def kubeconfig(server: str, authority: Authority, credentials: dict[str, str]) -> str:
    """Write a kubeconfig for one user.

    Args:
        server: "https://ADDRESS:PORT".
        credentials: the user's part, such as {"token": ...}.
    """
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(authority.pem).decode(),
    }
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "upstream", "cluster": cluster}],
            "users": [{"name": "user", "user": credentials}],
            "contexts": [{"name": "upstream", "context": {"cluster": "upstream", "user": "user"}}],
            "current-context": "upstream",
        },
        sort_keys=False,
    )


@dataclass(frozen=True)
class ClusterKeys:
    """Everything that the programs of a control plane are given.

    Attributes:
        cluster: signs everybody's certificates.
        front_proxy: signs the aggregator's, which may speak for others.
        server_address: "https://ADDRESS:PORT" of the API server.
    """

    folder: Path
    cluster: Authority
    front_proxy: Authority
    server_address: str

    def client_kubeconfig(self, file: str, user: str, *groups: str) -> Path:
        """Make a user with a certificate; returns the path of its kubeconfig."""
        certificate, key = self.cluster.client(file, user, *groups)
        text = kubeconfig(
            self.server_address,
            self.cluster,
            {
                "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
                "client-key-data": base64.b64encode(key.read_bytes()).decode(),
            },
        )
        return self._write(f"{file}.kubeconfig", text)

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        _write_private(path, text.encode())
        return path


def make_keys(folder: Path, server_address: str) -> ClusterKeys:
    """Make authorities, the API server's certificates and the ServiceAccount key."""
    keys = ClusterKeys(
        folder, Authority(folder, "ca"), Authority(folder, "front-proxy-ca"), server_address
    )
    address = str(urlsplit(server_address).hostname)
    addresses = dict.fromkeys((address, "127.0.0.1", FIRST_SERVICE_ADDRESS))
    keys.cluster.server("apiserver", _SERVER_NAMES, tuple(addresses))
    keys.cluster.client(
        "apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"
    )
    keys.front_proxy.client("front-proxy-client", "front-proxy-client")
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    _write_private(folder / "sa.key", _key_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_private(folder / "sa.pub", public)
    return keys
