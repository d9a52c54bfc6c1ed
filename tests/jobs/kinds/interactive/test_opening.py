"""Who is given a link to a notebook or TensorBoard, what it looks like, and why there is none."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core import checks

from jobs.kinds.interactive.opening import OpenLink
from jobs.kinds.interactive.tokens import ticket_key
from jobs.models import Workload, WorkloadState
from jobs.pod.gatekeeper.tickets import Signer
from jobs.workloads.actions import open_link
from portal.checks import check_gate
from portal.errors import Refused
from tenants.audit.record import asked_from
from tenants.models import AuditEntry, Team, Tenant, User
from tests.factories import make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db

KINDS = ("notebook", "tensorboard")


@pytest.fixture
def alice() -> Tenant:
    team = Team.objects.create(name="vision")
    tenant = make_tenant("alice", team=team)
    make_user("bob", team=team)
    make_user("mallory")
    make_user("root", role="admin")
    team.leads.add(make_user("lee", team=team))
    other = Team.objects.create(name="speech")
    other.leads.add(make_user("kim", team=other))
    return tenant


def running(tenant: Tenant, **changes: Any) -> Workload:
    return make_service(tenant, **{"state": WorkloadState.RUNNING, "node_port": 31000, **changes})


def open_as(name: str, service: Workload) -> OpenLink:
    return open_link(by=User.objects.get(username=name), workload=service)


def refused(name: str, service: Workload) -> Refused:
    with pytest.raises(Refused) as caught:
        open_as(name, service)
    assert str(caught.value)
    assert caught.value.next_step
    assert not AuditEntry.objects.filter(verb="open").exists()
    return caught.value


def test_the_link_leads_to_the_gates_page_with_a_ticket_in_the_fragment(alice: Tenant) -> None:
    service = running(alice)
    link = open_as("alice", service)
    parts = urlsplit(link.url)
    assert f"{parts.scheme}://{parts.netloc}" == "http://127.0.0.1:31000"
    assert parts.path == f"/s/{service.pk.hex[:8]}/__gate"
    assert parts.query == ""
    name, _, text = parts.fragment.partition("=")
    assert name == "t"
    key = ticket_key(service.pk, 1).encode()
    ticket = Signer(str(service.pk), 1, key, "notebook").read_ticket(text)
    assert ticket.subject == str(alice.owner_id)
    assert link.expires_at.timestamp() == pytest.approx(ticket.expires_at)
    assert link.expires_at.utcoffset() is not None


def test_opening_is_in_the_audit_trail_without_the_ticket(alice: Tenant) -> None:
    service = running(alice)
    with asked_from("10.0.0.7"):
        link = open_link(by=alice.owner, workload=service)
    row = AuditEntry.objects.get(verb="open")
    assert (row.actor, row.object_id, row.source_address) == (
        alice.owner,
        str(service.pk),
        "10.0.0.7",
    )
    ticket = link.url.partition("#t=")[2]
    assert ticket not in str(row.__dict__)


@pytest.mark.parametrize("name", ["alice", "lee", "root", "bob", "kim", "mallory"])
def test_a_notebook_opens_for_its_owner_alone(alice: Tenant, name: str) -> None:
    service = running(alice)
    if name == "alice":
        assert open_as(name, service).url
    else:
        told = refused(name, service)
        assert told.errors[0].code == "not_allowed"
        assert "volume" not in told.next_step, "no two people have one in common"


@pytest.mark.parametrize("name", ["alice", "lee", "root", "bob", "kim", "mallory"])
def test_a_tensorboard_opens_for_leads_and_admins_too(alice: Tenant, name: str) -> None:
    service = running(alice, kind="tensorboard")
    if name in {"alice", "lee", "root"}:
        assert open_as(name, service).url
    else:
        assert refused(name, service).errors[0].code == "not_allowed"


def test_nothing_opens_for_somebody_who_is_disabled(alice: Tenant) -> None:
    alice.owner.is_active = False
    alice.owner.save()
    assert refused("alice", running(alice)).errors[0].code == "not_allowed"


def test_nothing_opens_in_a_suspended_namespace(alice: Tenant) -> None:
    alice.desired = Tenant.Desired.SUSPENDED
    alice.save()
    assert refused("alice", running(alice)).errors[0].code == "not_allowed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", [state for state in WorkloadState if state != "running"])
def test_what_does_not_run_says_what_to_wait_for_or_to_do(
    alice: Tenant, state: WorkloadState, kind: str
) -> None:
    error = refused("alice", running(alice, state=state, kind=kind))
    assert error.errors[0].code == "not_running"
    assert ("TensorBoard" if kind == "tensorboard" else "notebook") in str(error)


def test_what_runs_without_a_port_yet_is_not_open(alice: Tenant) -> None:
    assert refused("alice", running(alice, node_port=None)).errors[0].code == "not_running"


def test_an_https_portal_without_a_certificate_for_gates_refuses(
    alice: Tenant, settings: Any
) -> None:
    settings.HTTPS = True
    error = refused("alice", running(alice))
    assert error.errors[0].code == "gate_needs_tls"
    assert "GATE_TLS_CERT_FILE" in error.next_step
    settings.GATE_TLS_CERT_FILE, settings.GATE_TLS_KEY_FILE = "/a.crt", "/a.key"
    assert open_as("alice", running(alice)).url.startswith("https://127.0.0.1:31000/s/")


@pytest.mark.parametrize("host", ["localhost", "LocalHost"])
def test_a_node_with_the_portals_own_host_name_is_refused(
    alice: Tenant, settings: Any, host: str
) -> None:
    settings.NODE_HOST = host
    assert refused("alice", running(alice)).errors[0].code == "host_not_separate"


def test_an_ipv6_node_is_bracketed(alice: Tenant, settings: Any) -> None:
    settings.NODE_HOST = "2001:db8::7"
    assert open_as("alice", running(alice)).url.startswith("http://[2001:db8::7]:31000/s/")


def found(settings: Any, **changes: Any) -> set[tuple[str | None, int]]:
    for name, value in changes.items():
        setattr(settings, name, value)
    return {(message.id, message.level) for message in check_gate(None)}


def test_the_start_up_check_is_content_with_the_defaults(settings: Any) -> None:
    assert found(settings) == set()
    assert check_gate in checks.registry.registry.get_checks()


def test_the_start_up_check_refuses_one_host_for_portal_and_nodes(settings: Any) -> None:
    assert found(settings, NODE_HOST="Localhost") == {("homeport.E001", checks.ERROR)}


def test_the_start_up_check_warns_of_https_without_a_certificate(
    settings: Any, tmp_path: Any
) -> None:
    assert found(settings, HTTPS=True) == {("homeport.W001", checks.WARNING)}
    path = tmp_path / "pem"
    path.write_text("-")
    pair = {"GATE_TLS_CERT_FILE": str(path), "GATE_TLS_KEY_FILE": str(path)}
    assert found(settings, HTTPS=True, **pair) == set()


def test_the_start_up_check_refuses_half_a_certificate(settings: Any, tmp_path: Any) -> None:
    path = tmp_path / "pem"
    path.write_text("-")
    error = {("homeport.E002", checks.ERROR)}
    assert found(settings, GATE_TLS_CERT_FILE=str(path)) == error
    assert found(settings, GATE_TLS_KEY_FILE=str(tmp_path / "absent")) == error
