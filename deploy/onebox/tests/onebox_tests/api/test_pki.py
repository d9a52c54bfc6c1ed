"""Credentials are made once, kept, and renewed before they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from onebox.api.pki import SERVER_DAYS, kubeconfig, load_credentials


def serial(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    first = load_credentials(tmp_path)
    server = serial(tmp_path / "server.crt")
    assert load_credentials(tmp_path) == first
    assert serial(tmp_path / "server.crt") == server
    first.server_context()


def test_the_server_certificate_is_renewed_and_the_authority_stays(tmp_path: Path) -> None:
    first = load_credentials(tmp_path)
    server = serial(tmp_path / "server.crt")
    later = datetime.now(UTC) + timedelta(days=SERVER_DAYS - 30)
    renewed = load_credentials(tmp_path, later)
    assert renewed == first
    assert serial(tmp_path / "server.crt") != server


def test_an_authority_at_its_end_is_replaced_together_with_the_server(tmp_path: Path) -> None:
    first = load_credentials(tmp_path)
    later = datetime.now(UTC) + timedelta(days=3500)
    renewed = load_credentials(tmp_path, later)
    assert renewed.ca_pem != first.ca_pem
    assert renewed.admin_token == first.admin_token
    authority = x509.load_pem_x509_certificate(renewed.ca_pem)
    server = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    server.verify_directly_issued_by(authority)


def test_the_certificate_is_for_loopback(tmp_path: Path) -> None:
    load_credentials(tmp_path)
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    load_credentials(tmp_path)
    (tmp_path / "ca.key").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"."):
        load_credentials(tmp_path)


def test_a_kubeconfig_holds_what_a_client_needs() -> None:
    read = yaml.safe_load(kubeconfig("127.0.0.1:6443", b"PEM", "ada", "token"))
    assert read["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert read["users"] == [{"name": "ada", "user": {"token": "token"}}]
    assert read["current-context"] == "onebox"
