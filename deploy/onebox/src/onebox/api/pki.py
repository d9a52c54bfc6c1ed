"""Keys and certificates: an own authority, a server certificate for loopback, tokens.

Everything lies in one folder that only its owner can read. The authority lasts ten years; the
server certificate is renewed at a start when less than a third of its time is left.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3_650
SERVER_DAYS = 365
RENEW_DAYS = SERVER_DAYS // 3
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
# Clocks of one machine agree, but a certificate must not be from the future after a clock jump.
_BACKDATED = timedelta(days=1)


def write_private(path: Path, content: bytes) -> None:
    """Write a file for the owner's eyes only, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _make_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = _new_key()
    # A name of its own for each authority, so that clients never mix up two of them.
    name = f"onebox {secrets.token_hex(4)}"
    certificate = (
        _builder(name, _name(name), key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _make_server(
    authority_key: ec.EllipticCurvePrivateKey, authority: x509.Certificate
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = _new_key()
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names.extend(x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _builder("onebox-api", authority.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return key, certificate


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the server shows and what it accepts.

    Attributes:
        ca_pem: the authority's certificate, for clients.
        admin_token: bearer token of Homeport and kubectl.
        node_token: bearer token of the node.
    """

    folder: Path
    ca_pem: bytes
    admin_token: str
    node_token: str

    def server_context(self) -> ssl.SSLContext:
        """Make the TLS context of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        return context


def load_credentials(folder: Path, now: datetime | None = None) -> Credentials:
    """Read the credentials of a folder, making what is missing and renewing what ends soon.

    Raises:
        OSError: the folder cannot be read or written.
        ValueError: a file in it is damaged; delete the folder to start with new credentials.
    """
    now = now or datetime.now(UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority_key, authority, is_new = _load_authority(folder, now)
    server = folder / "server.crt"
    if is_new or not server.exists() or _ends_soon(server, now):
        key, certificate = _make_server(authority_key, authority)
        write_private(folder / "server.key", _key_pem(key))
        write_private(server, _certificate_pem(certificate))
    return Credentials(
        folder,
        _certificate_pem(authority),
        _load_token(folder / "admin.token"),
        _load_token(folder / "node.token"),
    )


def _load_authority(
    folder: Path, now: datetime
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate, bool]:
    key_file, certificate_file = folder / "ca.key", folder / "ca.crt"
    if key_file.exists() and certificate_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} holds no elliptic curve key")
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if certificate.not_valid_after_utc > now + timedelta(days=SERVER_DAYS):
            return key, certificate, False
    key, certificate = _make_authority()
    write_private(key_file, _key_pem(key))
    write_private(certificate_file, _certificate_pem(certificate))
    return key, certificate, True


def _ends_soon(path: Path, now: datetime) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.not_valid_after_utc < now + timedelta(days=RENEW_DAYS)


def _load_token(path: Path) -> str:
    if path.exists():
        token = path.read_text().strip()
        if token:
            return token
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def kubeconfig(address: str, ca_pem: bytes, user: str, token: str) -> str:
    """Write a kubeconfig for one user.

    Args:
        address: "127.0.0.1:PORT".
    """
    authority = base64.b64encode(ca_pem).decode()
    # Written by hand, as the API half needs no YAML otherwise: all values are plain words.
    return (
        "apiVersion: v1\n"
        "kind: Config\n"
        "clusters:\n"
        "- name: onebox\n"
        "  cluster:\n"
        f"    server: https://{address}\n"
        f"    certificate-authority-data: {authority}\n"
        "users:\n"
        f"- name: {user}\n"
        "  user:\n"
        f"    token: {token}\n"
        "contexts:\n"
        "- name: onebox\n"
        "  context:\n"
        "    cluster: onebox\n"
        f"    user: {user}\n"
        "    namespace: default\n"
        "current-context: onebox\n"
    )
