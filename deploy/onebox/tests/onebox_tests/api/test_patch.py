"""Patches change objects as upstream's do."""

from typing import Any

import pytest

from onebox.api import patch
from onebox.api.resources import resource_named
from onebox.api.status import StatusError

POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/one", "x/two"]},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "i:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "command": ["run", "it"],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            },
            {"name": "side", "image": "s:1"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
    },
}


def pod_after(changes: Any, kind: str = "strategic") -> dict[str, Any]:
    before = patch.clone(POD)
    result = patch.apply(kind, resource_named("pods"), POD, changes)
    assert before == POD, "a patch must not change the object it starts from"
    return result


def test_a_strategic_patch_replaces_lists_without_a_merge_rule() -> None:
    changes = {
        "spec": {
            "containers": [{"name": "main", "command": ["other"]}],
            "tolerations": [{"key": "z"}],
        }
    }
    result = pod_after(changes)
    assert result["spec"]["containers"][0]["command"] == ["other"]
    assert result["spec"]["tolerations"] == [{"key": "z"}]


def test_a_whole_list_is_replaced_on_demand() -> None:
    changes = {"spec": {"containers": [{"$patch": "replace"}, {"name": "new", "image": "n"}]}}
    assert pod_after(changes)["spec"]["containers"] == [{"name": "new", "image": "n"}]


def test_a_map_is_replaced_or_emptied_on_demand() -> None:
    result = pod_after({"metadata": {"labels": {"$patch": "replace", "z": "1"}}})
    assert result["metadata"]["labels"] == {"z": "1"}
    assert pod_after({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}


def test_retained_keys_drop_the_other_members_of_a_union() -> None:
    changes = {
        "spec": {
            "volumes": [
                {"name": "data", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}
            ]
        }
    }
    assert pod_after(changes)["spec"]["volumes"] == [{"name": "data", "configMap": {"name": "c"}}]
    with pytest.raises(StatusError, match="retainKeys"):
        pod_after({"spec": {"volumes": [{"name": "data", "$retainKeys": ["name"], "nfs": {}}]}})


def test_the_order_directive_sorts_and_keeps_what_only_the_server_has() -> None:
    changes = {
        "spec": {
            "$setElementOrder/containers": [{"name": "new"}, {"name": "main"}],
            "containers": [{"name": "new", "image": "n"}],
        }
    }
    names = [c["name"] for c in pod_after(changes)["spec"]["containers"]]
    assert names.index("new") < names.index("main")
    assert "side" in names


def test_finalizers_merge_as_a_set_and_can_be_taken_out_one_by_one() -> None:
    assert pod_after({"metadata": {"finalizers": ["x/three", "x/one"]}})["metadata"][
        "finalizers"
    ] == ["x/one", "x/two", "x/three"]
    result = pod_after({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/one"]}})
    assert result["metadata"]["finalizers"] == ["x/two"]


def test_a_list_item_without_its_key_is_refused() -> None:
    with pytest.raises(StatusError, match="merge key: name") as refused:
        pod_after({"spec": {"containers": [{"image": "x"}]}})
    assert refused.value.code == 400


def test_a_json_patch_is_applied_and_a_failed_test_is_refused() -> None:
    changes = [
        {"op": "test", "path": "/metadata/name", "value": "p"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "i:2"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    result = pod_after(changes, "json")
    assert result["spec"]["containers"][0]["image"] == "i:2"
    assert result["metadata"]["labels"] == {"b": "2"}
    for broken in (
        [{"op": "test", "path": "/metadata/name", "value": "q"}],
        [{"op": "remove", "path": "/nothing/here"}],
        [{"op": "jump", "path": "/x"}],
        [{"path": "/x"}],
        ["text"],
    ):
        with pytest.raises(StatusError) as refused:
            pod_after(broken, "json")
        assert refused.value.code in (400, 422)


@pytest.mark.parametrize("changes", ["text", 3, None, []])
@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_a_patch_that_is_no_object_is_refused(kind: str, changes: Any) -> None:
    with pytest.raises(StatusError) as refused:
        pod_after(changes, kind)
    assert refused.value.code == 400
