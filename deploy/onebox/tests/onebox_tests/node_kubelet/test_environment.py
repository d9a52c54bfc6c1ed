"""Environment variables: order, references, sources, exactly as upstream."""

from __future__ import annotations

import base64

import pytest

from onebox.node.downward import PodView
from onebox.node.environment import (
    ConfigError,
    EnvironmentSources,
    container_environment,
    referenced_objects,
)
from onebox.node.expansion import expand
from onebox.node.servicelinks import service_links
from onebox_tests.node_kubelet.pods import container, pod

# The cases of upstream's expand_test.go.
EXPANSION = [
    ("$(VAR_A)", "A"),
    ("___$(VAR_B)___", "___B___"),
    ("$(VAR_A)$(VAR_B)", "AB"),
    ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
    ("$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"),
    ("f000-$$VAR_A", "f000-$VAR_A"),
    ("foo\\$(VAR_C)bar", "foo\\Cbar"),
    ("foo$$$$$(BAD)", "foo$$$(BAD)"),
    ("$(VAR_EMPTY)", ""),
    ("$(VAR_A)(VAR_B)", "A(VAR_B)"),
    ("$(VAR_REF)", "$(VAR_A)"),
    ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
    ("foo$(VAR_Abar", "foo$(VAR_Abar"),
    ("foo$", "foo$"),
    ("$", "$"),
    ("$VAR_A", "$VAR_A"),
    ("$$$(VAR_A)", "$A"),
    ("$$$$(VAR_A)", "$$(VAR_A)"),
    ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
    ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
    ("VAR_A=$(VAR_A)$", "VAR_A=A$"),
    ("\n$(VAR_A)", "\nA"),
    ("$?_boo", "$?_boo"),
    ("$()", "$()"),
]


@pytest.mark.parametrize(("text", "wanted"), EXPANSION)
def test_references_expand_as_upstream(text: str, wanted: str):
    values = {
        "VAR_A": "A",
        "VAR_B": "B",
        "VAR_C": "C",
        "VAR_REF": "$(VAR_A)",
        "VAR_EMPTY": "",
    }
    assert expand(text, values) == wanted


def environment(spec: dict, objects: dict | None = None, services: dict | None = None):
    view = PodView(
        {
            **pod(spec),
            "metadata": {
                "name": "p",
                "namespace": "ns",
                "uid": "u1",
                "labels": {"b": "2", "a": '1"x'},
                "annotations": {"note": "hello"},
            },
        },
        "10.244.0.7",
        "127.0.0.1",
        {"cpu": "8", "memory": "16Gi"},
    )
    sources = EnvironmentSources(
        view, objects or {}, services or {}, {"PATH": "/usr/bin"}, {"CUDA_VISIBLE_DEVICES": "1"}
    )
    return container_environment(spec, sources)


def test_a_value_refers_to_what_was_defined_before_it_and_to_services():
    env = [
        {"name": "LATER", "value": "$(NAME)-$(HOST_SERVICE_HOST)"},
        {"name": "NAME", "value": "x"},
        {"name": "BOTH", "value": "$(NAME)+$(LATER)"},
        {"name": "EMPTY"},
    ]
    found = environment(container(env=env), services={"HOST_SERVICE_HOST": "10.96.0.9"})
    assert found["LATER"] == "$(NAME)-10.96.0.9"
    assert found["BOTH"] == "x+$(NAME)-10.96.0.9"
    assert found["EMPTY"] == ""
    assert found["PATH"] == "/usr/bin"


def test_what_the_node_imposes_wins_over_the_pods_own_variable():
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2,3"}]
    assert environment(container(env=env))["CUDA_VISIBLE_DEVICES"] == "1"


def test_whole_configmaps_and_secrets_come_with_a_prefix_and_env_wins():
    objects = {
        ("configmaps", "c"): {"data": {"ONE": "1", "TWO": "2", "no=name": "x"}},
        ("secrets", "s"): {"data": {"KEY": base64.b64encode(b"hidden").decode()}},
    }
    spec = container(
        envFrom=[
            {"prefix": "C_", "configMapRef": {"name": "c"}},
            {"secretRef": {"name": "s"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
        env=[{"name": "C_TWO", "value": "two $(C_ONE)"}],
    )
    found = environment(spec, objects)
    assert (found["C_ONE"], found["C_TWO"], found["KEY"]) == ("1", "two 1", "hidden")
    assert "C_no=name" not in found
    wanted = {("configmaps", "c"), ("secrets", "s"), ("configmaps", "absent")}
    assert referenced_objects(spec) == wanted


FIELDS = [
    ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
    ({"fieldRef": {"fieldPath": "metadata.uid"}}, "u1"),
    ({"fieldRef": {"fieldPath": "metadata.labels['b']"}}, "2"),
    ({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "hello"),
    ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.244.0.7"),
    ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "onebox"),
    ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "2048"),
    ({"resourceFieldRef": {"resource": "limits.cpu"}}, "8"),
    ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "250"),
    ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
]


@pytest.mark.parametrize(("origin", "wanted"), FIELDS)
def test_a_pod_learns_about_itself(origin: dict, wanted: str):
    spec = container(
        env=[{"name": "X", "valueFrom": origin}],
        resources={"limits": {"memory": "2Gi"}, "requests": {"cpu": "250m"}},
    )
    assert environment(spec)["X"] == wanted


MISSING = [
    ({"configMapKeyRef": {"name": "c", "key": "k"}}, {}, 'configmap "c" not found'),
    ({"secretKeyRef": {"name": "s", "key": "k"}}, {}, 'secret "s" not found'),
    (
        {"configMapKeyRef": {"name": "c", "key": "k"}},
        {("configmaps", "c"): {"data": {}}},
        "couldn't find key k in ConfigMap ns/c",
    ),
]


@pytest.mark.parametrize(("origin", "objects", "sentence"), MISSING)
def test_what_is_missing_is_named_unless_it_is_optional(origin: dict, objects: dict, sentence: str):
    spec = container(env=[{"name": "X", "valueFrom": origin}])
    with pytest.raises(ConfigError, match=sentence):
        environment(spec, objects)
    kind = next(iter(origin))
    origin = {kind: {**origin[kind], "optional": True}}
    assert "X" not in environment(container(env=[{"name": "X", "valueFrom": origin}]), objects)


def service(name: str, namespace: str, ip: str, *ports: dict) -> dict:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"clusterIP": ip, "ports": list(ports)},
    }


def test_service_links_are_those_of_the_own_namespace_and_kubernetes():
    services = [
        service("kubernetes", "default", "10.96.0.1", {"name": "https", "port": 443}),
        service("my-db", "ns", "10.96.0.5", {"name": "sql", "port": 5432}),
        service("headless", "ns", "None", {"port": 80}),
        service("other", "elsewhere", "10.96.0.6", {"port": 80}),
    ]
    links = service_links("ns", services, own_namespace=True)
    assert links["MY_DB_SERVICE_HOST"] == "10.96.0.5"
    assert links["MY_DB_SERVICE_PORT_SQL"] == "5432"
    assert links["MY_DB_PORT"] == "tcp://10.96.0.5:5432"
    assert links["MY_DB_PORT_5432_TCP_ADDR"] == "10.96.0.5"
    assert links["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert not [name for name in links if name.startswith(("HEADLESS", "OTHER"))]
    without = service_links("ns", services, own_namespace=False)
    assert {name.split("_")[0] for name in without} == {"KUBERNETES"}
