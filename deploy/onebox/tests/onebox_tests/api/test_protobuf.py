"""Objects in protobuf, as typed Go clients send them, are read as the same objects in JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onebox.api.protobuf import MAGIC, MEDIA_TYPE, WireError, read_object
from onebox.api.resources import SERVED, resource_named
from onebox.api.schema import definition_name, shapes
from onebox.api.schemas.distil_wire import OUTPUT, read_structs
from onebox.api.shape import Record

from .conftest import Http

# What kubectl 1.32 sends for `kubectl create namespace pb`, and for
# `kubectl create job jj --image=python:3.11 -- python -c 1`, taken from the wire.
NAMESPACE = base64.b64decode(
    "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhoKEgoCcGISABoAIgAqADIAOABCABIAGgIKABoAIgA="
)
JOB = base64.b64decode(
    "azhzAAoPCghiYXRjaC92MRIDSm9iEo0BChIKAmpqEgAaACIAKgAyADgAQgASbTJrChAKABIAGgAiACoAMgA4AEIAElcS"
    "NAoCamoSC3B5dGhvbjozLjExGgZweXRob24aAi1jGgExKgBCAGoAcgCAAQCIAQCQAQCiAQAaBU5ldmVyMgBCAEoAUgBY"
    "AGAAaACCAQCKAQCaAQDCAQAaCCAAKAAwADoAGgAiAA=="
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes | str) -> bytes:
    """Encode one field: an int as a varint, the rest with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def envelope(raw: bytes, api_version: str = "v1", kind: str = "ConfigMap") -> bytes:
    meta = field(1, api_version) + field(2, kind)
    return MAGIC + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


def read(plural: str, raw: bytes) -> Any:
    return read_object(resource_named(plural), envelope(raw))


async def test_the_options_of_a_delete(http: Http) -> None:
    maps = "/api/v1/namespaces/lab/configmaps"
    _status, made = await http.post(maps, {"metadata": {"name": "c"}})
    uid = made["metadata"]["uid"]
    headers = {"Content-Type": MEDIA_TYPE}
    for raw, wanted in (
        (field(2, field(1, "another")), 409),
        (field(4, "Sideways"), 422),
        (field(1, 0) + field(2, field(1, uid)) + field(4, "Background") + field(5, "All"), 200),
        (field(3, 1) + field(4, "Background"), 422),
        (field(1, "soon"), 400),
        (field(1, 0) + field(2, field(1, uid)) + field(4, "Background"), 200),
        (b"", 404),
    ):
        data = envelope(raw, kind="DeleteOptions")
        status, said = await http.call("DELETE", f"{maps}/c", data=data, headers=headers)
        assert status == wanted, said


def test_a_namespace_as_kubectl_sends_it() -> None:
    assert read_object(resource_named("namespaces"), NAMESPACE) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "pb"},
    }


def test_a_job_as_kubectl_sends_it() -> None:
    container = {"name": "jj", "image": "python:3.11", "command": ["python", "-c", "1"]}
    assert read_object(resource_named("jobs"), JOB) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "jj"},
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    }


def test_maps_lists_bytes_and_times_are_read() -> None:
    meta = field(1, "c") + field(11, field(1, "app") + field(2, "web"))
    meta += field(8, field(1, 1_763_640_000) + field(2, 250_000_000))
    meta += field(14, "x.io/a") + field(14, "x.io/b")
    found = read("configmaps", field(1, meta) + field(2, field(1, "k") + field(2, "ä")))
    assert found["metadata"] == {
        "name": "c",
        "labels": {"app": "web"},
        "creationTimestamp": "2025-11-20T12:00:00.250000Z",
        "finalizers": ["x.io/a", "x.io/b"],
    }
    assert found["data"] == {"k": "ä"}
    secret = read("secrets", field(2, field(1, "k") + field(2, b"\x00\xff")))
    assert secret["data"] == {"k": base64.b64encode(b"\x00\xff").decode()}


def test_embedded_structs_pointers_and_zeros_are_read_as_go_means_them() -> None:
    volume = field(1, "d") + field(2, field(2, b""))  # emptyDir: {}
    handler = field(1, field(2, field(1, "/") + field(2, field(1, 1) + field(3, "http"))))
    probe = handler + field(2, 0) + field(3, 5)
    container = field(1, "m") + field(2, "") + field(10, probe)
    spec = field(1, volume) + field(2, container) + field(4, 0) + field(3, "") + field(11, 0)
    found = read("pods", field(2, spec))["spec"]
    assert found == {
        "volumes": [{"name": "d", "emptyDir": {}}],
        "containers": [
            {
                "name": "m",
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "timeoutSeconds": 5},
            }
        ],
        # A pointer: zero is a value. restartPolicy and hostNetwork are not set.
        "terminationGracePeriodSeconds": 0,
    }


def test_quantities_and_negative_numbers_are_read() -> None:
    hard = field(1, "cpu") + field(2, field(1, "1500m"))
    assert read("resourcequotas", field(2, field(1, hard)))["spec"] == {"hard": {"cpu": "1500m"}}
    assert read("priorityclasses", field(2, -5))["value"] == -5


def test_every_field_of_every_kind_has_its_number() -> None:
    table = json.loads(OUTPUT.read_text())

    def names(definition: str) -> set[str]:
        found: set[str] = set()
        for name in table[definition].values():
            found |= names(name[1:]) if name.startswith(">") else {name.removeprefix("*")}
        return found

    checked = 0
    for definition in shapes().definitions:
        shape = shapes().named(definition)
        if isinstance(shape, Record):
            assert shape.fields.keys() - names(definition) <= {"apiVersion", "kind"}, definition
            checked += 1
    assert checked > 200
    assert all(definition_name(resource) in table for resource in SERVED)


def test_the_numbers_come_out_of_go_sources() -> None:
    source = (
        "type Job struct {\n"
        '\tmetav1.TypeMeta `json:",inline"`\n'
        "\t// about\n"
        '\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`\n'
        '\tSpec *JobSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`\n'
        '\tSource `json:",inline" protobuf:"bytes,3,opt,name=source"`\n'
        "}\n"
    )
    assert read_structs("x.v1", source) == {
        "x.v1.Job": {"1": "metadata", "2": "*spec", "3": ">x.v1.Source"}
    }


@pytest.mark.parametrize(
    "raw",
    [
        field(1, "c")[:-1],
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        field(1, 5),
        field(1, field(1, b"\xff")),
        b"\x0f",
        b"\x08",
    ],
)
def test_what_is_no_protobuf_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        read("configmaps", raw)
    with pytest.raises(WireError):
        read_object(resource_named("configmaps"), b"{}")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_but_never_break_the_reader(raw: bytes) -> None:
    for plural in ("pods", "configmaps", "jobs"):
        try:
            found = read(plural, raw)
        except WireError:
            continue
        assert isinstance(found, dict)


async def test_protobuf_is_taken_over_http_and_answered_in_json(http: Http) -> None:
    headers = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE},application/json"}
    status, made = await http.call("POST", "/api/v1/namespaces", data=NAMESPACE, headers=headers)
    assert (status, made["kind"], made["metadata"]["name"]) == (201, "Namespace", "pb")
    status, refused = await http.call(
        "POST", "/api/v1/namespaces", data=NAMESPACE[:-3], headers=headers
    )
    assert status == 400
    assert "is no protobuf of a Namespace" in refused["message"]
    path = "/api/v1/namespaces/pb"
    assert (await http.call("DELETE", path, data=NAMESPACE, headers=headers))[0] == 400
