"""A certificate authority in a folder, as a control plane has one."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; each is a file with its key beside it.

    Attributes:
        certificate_file: its own certificate.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        is_authority = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate_file, _ = self._issue("ca", self._key, is_authority)

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate with this common name, for 127.0.0.1, and its key."""
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        key = ec.generate_private_key(ec.SECP256R1())
        return self._issue(name, key, x509.SubjectAlternativeName([address]))

    def _issue(
        self, name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> tuple[Path, Path]:
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .public_key(key.public_key())
            .issuer_name(_named("ca"))
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )
        files = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
