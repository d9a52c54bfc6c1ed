"""Who may read this node's logs, and how the node proves who it is: a shared token or certificates.

Under onebox's own API half both sides share a token. Under another control plane the node serves
with a certificate that the API server trusts, and asks for the API server's own, as the kubelet
does. https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/
"""

from __future__ import annotations

import hmac
import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class LogAccess(Protocol):
    """What the log server asks about its readers."""

    def tls(self, host: str) -> ssl.SSLContext:
        """The server's side of TLS, for a server at the address `host`."""

    def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to somebody who may not read; None for who may."""


@dataclass(frozen=True)
class TokenAccess:
    """Who has the token may read. The certificate is self-signed: the token is for loopback."""

    token: str

    def tls(self, host: str) -> ssl.SSLContext:
        return self_signed_context(host)

    def refusal(self, request: web.Request) -> web.Response | None:
        wanted = f"Bearer {self.token}".encode()
        given = request.headers.get("Authorization", "").encode()
        if hmac.compare_digest(given, wanted):
            return None
        return web.Response(status=401, text="a bearer token of this node is needed")


@dataclass(frozen=True)
class CertificateAccess:
    """Who shows a certificate of the cluster's authority with the given name may read.

    Args:
        certificate, key: of this server, PEM files.
        client_ca: authority of the readers' certificates, a PEM file. It signs everybody's, so
            the name decides.
        client_name: common name of the API server's certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path
    client_name: str

    def tls(self, host: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.client_ca))
        context.load_cert_chain(self.certificate, self.key)
        # Optional, so that who comes without one is told in words.
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def refusal(self, request: web.Request) -> web.Response | None:
        transport = request.transport
        shown = transport.get_extra_info("peercert") if transport is not None else None
        if not shown:
            return web.Response(status=401, text="a certificate of this cluster is needed")
        if self.client_name in _common_names(shown):
            return None
        text = f"only {self.client_name} may read this node's logs"
        return web.Response(status=403, text=text)


def _common_names(certificate: dict[str, Any]) -> set[str]:
    """The common names in a certificate as `ssl.SSLSocket.getpeercert` gives it."""
    subject = certificate.get("subject") or ()
    return {value for part in subject for key, value in part if key == "commonName"}


def self_signed_context(host: str) -> ssl.SSLContext:
    """Make a TLS server context with a fresh key and a self-signed certificate for `host`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "onebox-node")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The ssl module loads keys from files only: a private one that is gone at once.
    descriptor, path = tempfile.mkstemp(prefix="onebox-")
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(path)
    finally:
        os.close(descriptor)
        Path(path).unlink()
    return context
