"""Server-side apply: who owns which field, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError
from onebox.api.strategy import WriteOptions

from .bodies import DEPLOYMENT
from .conftest import Http, Obj, pod

MAPS = "/api/v1/namespaces/lab/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/lab/deployments"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def config(name: str = "c", **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def apply(
    api: Api,
    body: Obj,
    manager: str = "a",
    *,
    force: bool = False,
    plural: str = "configmaps",
    subresource: str | None = None,
) -> Obj:
    options = WriteOptions(manager=manager, force=force)
    name = body["metadata"]["name"]
    return api.apply(plural, "lab", name, body, subresource=subresource, options=options)[0]


def owned(obj: Obj, manager: str, subresource: str = "") -> Any:
    for entry in obj["metadata"].get("managedFields", []):
        if (entry["manager"], entry.get("subresource", "")) == (manager, subresource):
            return entry["fieldsV1"]
    return None


def test_several_conflicts_are_listed_by_manager(api: Api) -> None:
    apply(api, config(a="1", b="1"))
    with pytest.raises(StatusError) as refused:
        apply(api, config(a="2", b="2"), "other")
    expected = 'Apply failed with 2 conflicts: conflicts with "a":\n- .data.a\n- .data.b'
    assert refused.value.message == expected


def test_two_appliers_may_agree(api: Api) -> None:
    apply(api, config(a="1"))
    both = apply(api, config(a="1"), "other")
    assert owned(both, "a") == owned(both, "other") == {"f:data": {"f:a": {}}}
    kept = apply(api, config(), "other")
    assert kept["data"] == {"a": "1"}


def test_creates_and_updates_are_followed(api: Api) -> None:
    made = api.create("pods", "lab", pod(), options=WriteOptions(manager="curl"))
    fields = owned(made, "curl")
    assert fields["f:spec"]["f:containers"]['k:{"name":"main"}'] == {
        ".": {},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
        "f:resources": {},
        "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {},
    }
    assert "." not in fields["f:spec"], "what Go always writes is nobody's doing"
    assert "f:status" not in fields, "a create does not set the status"
    assert "f:tolerations" not in fields["f:spec"], "nor is what admission adds the client's"
    status = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    options = WriteOptions(manager="node")
    told = api.patch("pods", "lab", "p", status, subresource="status", options=options)
    assert owned(told, "node", "status") == {"f:status": {"f:phase": {}}}


def test_items_of_lists_are_merged_by_their_keys(api: Api) -> None:
    def container(**fields: Any) -> Obj:
        body = json.loads(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", **DEPLOYMENT}))
        template = body["spec"]["template"]["spec"]
        template["containers"] = [{**template["containers"][0], **fields}]
        return body

    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    name = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]["name"]
    first = apply(
        api, container(ports=ports, env=[{"name": "A", "value": "1"}]), plural="deployments"
    )
    template = owned(first, "a")["f:spec"]["f:template"]["f:spec"]["f:containers"]
    mine = template[f'k:{{"name":"{name}"}}']
    assert set(mine["f:ports"]) == {
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
    }
    other = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": first["metadata"]["name"]},
        "spec": {"template": {"spec": {"containers": [
            {"name": name, "env": [{"name": "B", "value": "2"}]}]}}},
    }  # fmt: skip
    apply(api, other, "sidecar", plural="deployments")
    left = apply(api, container(ports=ports[:1]), plural="deployments")
    (got,) = left["spec"]["template"]["spec"]["containers"]
    assert got["env"] == [{"name": "B", "value": "2"}]
    assert got["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_kubectl_takes_over_what_its_client_side_apply_has_set(api: Api) -> None:
    last = json.dumps(config(a="1", b="2"))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    body = config(a="1", b="2")
    body["metadata"]["annotations"] = annotations
    options = WriteOptions(manager="kubectl-client-side-apply")
    api.create("configmaps", "lab", body, options=options)
    with pytest.raises(StatusError, match="2 conflicts"):
        apply(api, config(a="8", b="9"), "me")
    new = apply(api, config(a="8", b="9"), "kubectl")
    assert new["data"] == {"a": "8", "b": "9"}
    text = new["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(text) == config(a="8", b="9")


def test_the_managers_can_be_forgotten_and_are_found_again(api: Api) -> None:
    apply(api, config(a="1"))
    forget = {"metadata": {"managedFields": [{}]}}
    plain = api.patch("configmaps", "lab", "c", forget, options=WriteOptions(manager="x"))
    assert "managedFields" not in plain["metadata"]
    api.patch("configmaps", "lab", "c", {"data": {"b": "2"}}, options=WriteOptions(manager="x"))
    with pytest.raises(StatusError, match=r'"before-first-apply" using v1: \.data\.a'):
        apply(api, config(a="2"))
    assert owned(apply(api, config(a="1")), "before-first-apply") == {
        "f:data": {".": {}, "f:a": {}, "f:b": {}}
    }


def test_more_than_ten_updaters_are_counted_together(api: Api, clock: Any) -> None:
    apply(api, config(a="1"))
    for i in range(12):
        clock.advance(1)
        options = WriteOptions(manager=f"m{i:02}")
        api.patch("configmaps", "lab", "c", {"data": {f"k{i}": "1"}}, options=options)
    entries = api.get("configmaps", "lab", "c")["metadata"]["managedFields"]
    updaters = [entry["manager"] for entry in entries if entry["operation"] == "Update"]
    assert len(updaters) == 10
    assert updaters[0] == "ancient-changes"


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
        ({"metadata": {"name": "c", "managedFields": []}}, 400, "managedFields must be nil"),
        ({"datta": {}}, 500, ".datta: field not declared in schema"),
        ({"data": {"a": 1}}, 500, ".data.a: expected string, got &value.valueUnstructured{"),
        ({"data": []}, 500, ".data: expected map, got &{[]}"),
    ],
)
def test_a_configuration_that_is_none_is_refused(
    api: Api, body: Obj, code: int, words: str
) -> None:
    with pytest.raises(StatusError) as refused:
        apply(api, {**config(), **body})
    assert refused.value.code == code
    assert words in refused.value.message


async def test_apply_over_http(http: Http) -> None:
    path = f"{MAPS}/c?fieldManager=me"
    text = "apiVersion: v1\nkind: ConfigMap\ndata: {a: '1', b: 2026-01-01}\n"
    status, refused = await http.call("PATCH", path, data=text, headers=APPLY)
    expected = "the name of the object (c based on URL) was undeterminable: name must be provided"
    assert (status, refused["message"]) == (400, expected)
    text += "metadata: {name: c}\n"
    status, made = await http.call("PATCH", path, data=text, headers=APPLY)
    assert (status, made["data"]) == (201, {"a": "1", "b": "2026-01-01"})
    body = json.dumps(config(a="1"))
    status, dry = await http.call("PATCH", f"{path}&dryRun=All", data=body, headers=APPLY)
    assert (status, dry["data"]) == (200, {"a": "1"})
    assert (await http.get(f"{MAPS}/c"))[1]["data"] == made["data"]
    status, refused = await http.call("PATCH", f"{MAPS}/c", data=body, headers=APPLY)
    needed = "fieldManager: Required value: is required for apply patch"
    expected = f'PatchOptions.meta.k8s.io "" is invalid: {needed}'
    assert (status, refused["message"]) == (422, expected)
    status, refused = await http.patch(f"{MAPS}/c?force=true", {})
    assert (status, refused["details"]["causes"][0]["field"]) == (422, "force")
    for wrong in ("a: [b", "a: &a [*a]", "[]"):
        status, refused = await http.call("PATCH", path, data=wrong, headers=APPLY)
        assert status == 400, wrong


async def test_aliases_that_multiply_are_refused(http: Http) -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 12)]
    path = f"{MAPS}/c?fieldManager=me"
    status, refused = await http.call("PATCH", path, data="\n".join(lines), headers=APPLY)
    assert (status, refused["message"]) == (
        400,
        "error decoding YAML: document contains excessive aliasing",
    )


async def test_replicas_that_were_scaled_belong_to_who_scaled(http: Http) -> None:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **DEPLOYMENT}
    name = DEPLOYMENT["metadata"]["name"]
    body = {**body, "spec": {**body["spec"], "replicas": 1}}
    path = f"{DEPLOYMENTS}/{name}?fieldManager=me"
    status, _made = await http.call("PATCH", path, data=json.dumps(body), headers=APPLY)
    assert status == 201
    scale = {"spec": {"replicas": 3}}
    status, _scale = await http.patch(f"{DEPLOYMENTS}/{name}/scale?fieldManager=scaler", scale)
    assert status == 200
    _status, found = await http.get(f"{DEPLOYMENTS}/{name}")
    assert owned(found, "scaler", "scale") == {"f:spec": {"f:replicas": {}}}
    status, refused = await http.call("PATCH", path, data=json.dumps(body), headers=APPLY)
    assert status == 409
    assert refused["message"] == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" '
        "using apps/v1: .spec.replicas"
    )
    wanted = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 5}}
    path = f"{DEPLOYMENTS}/{name}/scale?fieldManager=auto&force=true"
    status, scaled = await http.call("PATCH", path, data=json.dumps(wanted), headers=APPLY)
    assert (status, scaled["spec"]["replicas"]) == (200, 5)
