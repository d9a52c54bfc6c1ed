"""Services: addresses, ports of nodes, endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.contract.bodies import pod, service
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape, pick


def _ports(obj: Json) -> Json:
    return {"type": obj["spec"]["type"], "ports": obj["spec"]["ports"]}


@script
def a_node_port_that_is_taken_is_refused(tape: Tape) -> None:
    path = tape.path("services")
    made = tape.post(path, service("a", type="NodePort"), show=_ports)
    taken = made.body["spec"]["ports"][0]["nodePort"]
    reply = tape.kube.send(
        "POST", path, service("b", type="NodePort", ports=[{"port": 80, "nodePort": taken}])
    )
    shown = str(reply.body).replace(str(taken), "<taken>")
    tape.note("taken", [reply.code, shown])
    tape.kube.must("DELETE", tape.path("services", "a"))
    again = service("b", type="NodePort", ports=[{"port": 80, "nodePort": taken}])
    tape.post(path, again, show=_ports)


@script
def a_node_port_out_of_the_range_is_refused(tape: Tape) -> None:
    ports = [{"port": 80, "nodePort": 99}]
    tape.post(tape.path("services"), service("a", type="NodePort", ports=ports))


@script
def a_node_port_of_a_service_without_node_ports_is_refused(tape: Tape) -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    reply = tape.kube.send("POST", tape.path("services"), service("a", ports=ports))
    tape.note(
        "reply",
        {"code": reply.code, "reason": reply.body["reason"], "details": reply.body["details"]},
    )


@script
def a_service_keeps_its_ports_and_address_when_it_changes(tape: Tape) -> None:
    tape.post(tape.path("services"), service("s", type="NodePort"))
    one = tape.path("services", "s")
    tape.merge(one, {"spec": {"selector": {"app": "y"}}})
    tape.merge(one, {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}})
    tape.merge(one, {"spec": {"type": "NodePort"}})
    tape.merge(one, {"spec": {"clusterIP": "None"}}, show=pick("spec.clusterIP"))


@script
def what_a_service_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("services")
    twice = [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]
    for spec in (
        {"ports": []},
        {"ports": [{"port": 0}]},
        {"ports": [{"port": 70000}]},
        {"ports": [{"port": 1}, {"port": 2}]},
        {"ports": twice},
        {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]},
        {"ports": [{"port": 1, "protocol": "SMOKE"}]},
        {"ports": [{"port": 1, "targetPort": "Not_A_Port"}]},
        {"type": "Sideways"},
        {"type": "NodePort", "clusterIP": "None"},
        {"clusterIP": "nonsense"},
        {"selector": {"a b": "c"}},
        {"sessionAffinity": "Sometimes"},
        {"type": "ExternalName"},
    ):
        tape.post(path, service("s", **spec), dryRun="All", show=pick("metadata.name"))


def _slices(tape: Tape) -> str:
    selector = "kubernetes.io/service-name=s"
    return tape.path("endpointslices", group="discovery.k8s.io/v1", labelSelector=selector)


@script
def endpoints_follow_the_pods(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("services"), service("s"))

    def show(body: Json) -> list[Json]:
        return [
            {
                "endpoints": item["endpoints"],
                "ports": item["ports"],
                "labels": item["metadata"]["labels"],
                "addressType": item["addressType"],
            }
            for item in body["items"]
        ]

    def ends(body: Json) -> list[Json]:
        return [end for item in body["items"] for end in item.get("endpoints") or []]

    tape.kube.must("POST", tape.path("pods"), pod("p", meta={"labels": {"app": "x"}}))
    tape.runs("p")
    tape.pod_status("p", {"podIP": "10.244.9.9", "podIPs": [{"ip": "10.244.9.9"}]})
    tape.until(_slices(tape), ends, show=show)
    tape.kube.must("DELETE", tape.path("pods", "p"), {"gracePeriodSeconds": 30})
    tape.until(
        _slices(tape),
        lambda body: ends(body) and ends(body)[0]["conditions"].get("terminating"),
        show=lambda body: [end["conditions"] for end in ends(body)],
    )
    tape.let_go("p")
    tape.until(_slices(tape), lambda body: not ends(body), show=lambda body: len(ends(body)))


@script
def pods_that_are_not_ready_are_published_where_asked(tape: Tape) -> None:
    body = service("s", clusterIP="None", publishNotReadyAddresses=True)
    tape.kube.must("POST", tape.path("services"), body)
    tape.kube.must(
        "POST",
        tape.path("pods"),
        pod("p", meta={"labels": {"app": "x"}}, hostname="h", subdomain="s"),
    )
    status = {"phase": "Pending", "podIP": "10.244.9.8", "podIPs": [{"ip": "10.244.9.8"}]}
    tape.pod_status("p", status)
    tape.until(
        _slices(tape),
        lambda body: body["items"] and body["items"][0].get("endpoints"),
        show=lambda body: [item["endpoints"] for item in body["items"]],
    )


MOST_PORTS = 5000
AT_ONCE = 250


def _range_size(tape: Tape) -> int:
    """The size of the range, as the refusal of a port outside says."""
    body = service("probe", type="NodePort", ports=[{"port": 80, "nodePort": 99}])
    message = tape.kube.send("POST", tape.path("services"), body).body["message"]
    found = re.search(r"valid ports is (\d+)-(\d+)", message)
    assert found, message
    return int(found[2]) - int(found[1]) + 1


@contextmanager
def _no_port_is_free(tape: Tape) -> Iterator[None]:
    path = tape.path("services")
    count, number = AT_ONCE, 0
    try:
        while count:
            number += 1
            ports = [{"name": f"p{port}", "port": port} for port in range(1, count + 1)]
            body = service(f"fill-{number}", type="NodePort", ports=ports)
            reply = tape.kube.send("POST", path, body)
            if reply.code != 201:
                assert reply.code == 500, reply.body
                count //= 2
        yield
    finally:
        # Others need ports sooner than a namespace is gone.
        for taken in range(1, number + 1):
            tape.kube.send("DELETE", tape.path("services", f"fill-{taken}"))


@script(is_alone=True)
def a_service_without_a_free_node_port_is_refused_and_taken_later(tape: Tape) -> None:
    if (count := _range_size(tape)) > MOST_PORTS:
        pytest.skip(f"there are {count} ports to take")
    path, inner = tape.path("services"), tape.path("services", "inner")
    with _no_port_is_free(tape):
        tape.post(path, service("late", type="NodePort"))
        tape.post(path, service("inner"), show=pick("spec.type"))
        tape.merge(inner, {"spec": {"type": "NodePort"}})
        tape.kube.must("DELETE", tape.path("services", "fill-1"))
        tape.post(path, service("late", type="NodePort"), show=_ports)
        tape.merge(inner, {"spec": {"type": "NodePort"}}, show=_ports)
