"""Who may do what, where a cluster enforces it."""

from __future__ import annotations

from tests.contract.tape import Tape


def test_an_account_without_a_role_reads_nothing(tape: Tape) -> None:
    account = f"system:serviceaccount:{tape.ns}:default"
    reply = tape.kube.send("GET", tape.path("secrets"), headers={"Impersonate-User": account})
    assert reply.code == 403
    assert reply.body["message"] == (
        f'secrets is forbidden: User "{account}" cannot list resource "secrets" '
        f'in API group "" in the namespace "{tape.ns}"'
    )
