"""Tickets that the portal writes are what the gate reads, and nothing else is."""

import time
from typing import Any
from uuid import uuid4

import pytest

from jobs.kinds.interactive import tokens
from jobs.models import Workload
from jobs.pod.gatekeeper.refusals import GateRefusal
from jobs.pod.gatekeeper.tickets import Signer
from tests.factories import make_service, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def notebook() -> Workload:
    return make_service(make_tenant("alice"), generation=3)


def signer(service: Workload, **changes: Any) -> Signer:
    """The gate of the service's latest start, with changes."""
    given = {"service_id": str(service.pk), "start": service.generation, **changes}
    return Signer(
        ticket_key=tokens.ticket_key(service.pk, given["start"]).encode(), word="notebook", **given
    )


def ticket_of(service: Workload) -> tokens.Ticket:
    """A new ticket of the service's owner to its latest start."""
    return tokens.new_ticket(service.pk, service.generation, service.owner_id)


def test_the_gate_reads_what_the_portal_wrote(notebook: Workload) -> None:
    before = time.time()
    ticket = ticket_of(notebook)
    found = signer(notebook).read_ticket(ticket.text)
    assert found.service_id == str(notebook.pk)
    assert found.subject == str(notebook.owner_id)
    assert found.start == 3
    assert found.expires_at == ticket.expires_at
    assert found.expires_at - found.issued_at == pytest.approx(60, abs=0.01)
    assert before - 0.01 <= found.issued_at <= time.time() + 0.01
    signer(notebook).check_times(found, now=time.time(), began_at=before - 1)


def test_two_tickets_are_never_the_same(notebook: Workload) -> None:
    texts = {ticket_of(notebook).text for _ in range(50)}
    assert len({signer(notebook).read_ticket(text).identity for text in texts}) == 50


def test_a_ticket_is_of_one_start(notebook: Workload) -> None:
    ticket = ticket_of(notebook)
    for start in (2, 4):
        with pytest.raises(GateRefusal):
            signer(notebook, start=start).read_ticket(ticket.text)
    # Not only by the key: the start is in what was signed, too.
    key = tokens.ticket_key(notebook.pk, 3).encode()
    with pytest.raises(GateRefusal, match="earlier start"):
        Signer(str(notebook.pk), 4, key, "notebook").read_ticket(ticket.text)


def test_a_ticket_is_of_one_service(notebook: Workload) -> None:
    other = make_service(notebook.tenant, generation=3)
    ticket = ticket_of(other)
    with pytest.raises(GateRefusal):
        signer(notebook).read_ticket(ticket.text)
    key = tokens.ticket_key(other.pk, 3).encode()
    with pytest.raises(GateRefusal, match="something else"):
        Signer(str(notebook.pk), 3, key, "notebook").read_ticket(ticket.text)


def test_secrets_differ_between_purposes_services_and_starts() -> None:
    one, other = uuid4(), uuid4()
    values = [
        value
        for service in (one, other)
        for start in (1, 2)
        for value in (tokens.ticket_key(service, start), tokens.app_token(service, start))
    ] + [tokens.portal_token(one), tokens.portal_token(other)]
    assert len(set(values)) == len(values)
    assert all(len(value) == 64 for value in values)


def test_the_secret_of_a_start_has_the_certificate_only_where_there_is_one(
    notebook: Workload, settings: Any, tmp_path: Any
) -> None:
    assert set(tokens.gate_secrets(notebook.pk, 3)) == {
        *("portal_token", "ticket_key", "app_token", "usage_token"),
    }
    for name in ("CERT", "KEY"):
        path = tmp_path / name
        path.write_text(f"-- {name} --")
        setattr(settings, f"GATE_TLS_{name}_FILE", str(path))
    found = tokens.gate_secrets(notebook.pk, 3)
    assert (found["tls.crt"], found["tls.key"]) == ("-- CERT --", "-- KEY --")
