"""Objects of any kind: created, read, changed, deleted, and refused."""

from __future__ import annotations

from tests.contract.bodies import config_map, deployment, pod, service
from tests.contract.kube import JSON, MERGE, STRATEGIC
from tests.contract.script import script
from tests.contract.tape import CORE, Tape, pick


@script
def an_object_is_created_read_replaced_and_deleted(tape: Tape) -> None:
    one = tape.path("configmaps", "c")
    made = tape.post(tape.path("configmaps"), config_map())
    tape.get(one)
    tape.put(one, {**made.body, "data": {"a": "2"}})
    tape.put(one, config_map(data={"b": "3"}))  # without a version: whatever is there
    tape.delete(one)
    tape.get(one)


@script
def a_taken_name_is_refused_as_already_existing(tape: Tape) -> None:
    for plural, group, body in (
        ("configmaps", "", config_map("n")),
        ("pods", "", pod("n")),
        ("services", "", service("n")),
        ("deployments", "apps/v1", deployment("n", replicas=0)),
    ):
        tape.post(tape.path(plural, group=group), body, show=pick("metadata.name"))
        tape.post(tape.path(plural, group=group), body)


@script
def a_change_of_an_older_version_is_refused_as_a_conflict(tape: Tape) -> None:
    made = tape.post(tape.path("configmaps"), config_map())
    one = tape.path("configmaps", "c")
    tape.merge(one, {"data": {"a": "2"}})
    tape.put(one, {**made.body, "data": {"a": "3"}})
    tape.merge(one, {"metadata": {"resourceVersion": made.version}, "data": {"a": "3"}})
    tape.merge(one, {"metadata": {"uid": "another"}, "data": {"a": "3"}})
    tape.get(one)


@script
def a_delete_holds_only_for_the_given_uid_and_version(tape: Tape) -> None:
    made = tape.post(tape.path("configmaps"), config_map())
    one = tape.path("configmaps", "c")
    tape.merge(one, {"data": {"a": "2"}})
    other = "00000000-0000-0000-0000-000000000000"
    tape.delete(one, {"preconditions": {"uid": other}})
    tape.delete(one, {"preconditions": {"uid": made.uid, "resourceVersion": made.version}})
    tape.delete(one, {"preconditions": {"uid": made.uid}})
    tape.delete(one, {"preconditions": {"uid": made.uid}})


@script
def a_patch_that_changes_nothing_makes_no_new_version(tape: Tape) -> None:
    tape.post(tape.path("configmaps"), config_map())
    one = tape.path("configmaps", "c")
    tape.merge(one, {"data": {"a": "1"}})
    tape.merge(one, {"metadata": {"labels": {}}})
    tape.merge(one, {"data": {"a": "2"}})


@script
def a_merge_patch_adds_changes_and_removes(tape: Tape) -> None:
    tape.post(tape.path("configmaps"), config_map(data={"a": "1", "b": "2"}))
    one = tape.path("configmaps", "c")
    tape.merge(one, {"data": {"a": None, "b": "3", "c": "4"}})
    tape.merge(one, {"metadata": {"labels": {"x": "y"}, "annotations": {"n": "m"}}})
    tape.merge(one, {"metadata": {"labels": None}, "data": None})
    tape.merge(one, {"metadata": {"name": "other"}})
    tape.merge(one, {"kind": "Secret"})
    tape.merge(one, [1])
    tape.merge(tape.path("configmaps", "none"), {"data": {}})


@script
def a_json_patch_tests_adds_replaces_moves_and_removes(tape: Tape) -> None:
    tape.post(tape.path("configmaps"), config_map(data={"a": "1", "b": "2"}))
    one = tape.path("configmaps", "c")
    tape.json_patch(
        one,
        [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "9"},
            {"op": "move", "from": "/data/b", "path": "/data/c"},
            {"op": "copy", "from": "/data/c", "path": "/data/d"},
            {"op": "add", "path": "/metadata/labels", "value": {"k~/v": "x"}},
        ],
    )
    tape.json_patch(one, [{"op": "add", "path": "/metadata/labels", "value": {"k": "x"}}])
    tape.json_patch(one, [{"op": "remove", "path": "/metadata/labels/k"}])
    tape.json_patch(one, [{"op": "test", "path": "/data/a", "value": "1"}])
    tape.json_patch(one, [{"op": "remove", "path": "/data/none"}])
    tape.json_patch(one, [{"op": "replace", "path": "/data/none", "value": "1"}])
    tape.json_patch(one, [{"op": "wrong", "path": "/data/a"}])
    tape.json_patch(one, {"op": "remove"})


@script
def a_strategic_merge_patch_merges_lists_by_their_key(tape: Tape) -> None:
    path = tape.path("deployments", group="apps/v1")
    tape.post(path, deployment(replicas=0), show=pick("metadata.generation"))
    one = tape.path("deployments", "d", group="apps/v1")
    show = pick("metadata.generation", "spec.template.spec.containers", "spec.replicas")
    second = {"name": "second", "image": "other", "securityContext": {}}
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    for containers in (
        [{"name": "main", "env": env}],
        [{"name": "main", "env": [{"name": "B", "value": "3"}]}, second],
        [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}],
        [{"name": "second", "$patch": "delete"}],
        [{"name": "main", "args": ["x"]}],
        [{"name": "main", "args": None}],
    ):
        body = {"spec": {"template": {"spec": {"containers": containers}}}}
        tape.send("PATCH", one, body, kind=STRATEGIC, show=show)
    tape.send("PATCH", one, {"spec": {"$patch": "nonsense"}}, kind=STRATEGIC)


@script
def names_and_labels_that_break_the_rules_are_refused_with_causes(tape: Tape) -> None:
    path = tape.path("configmaps")
    tape.post(path, config_map("Not_A_Name"))
    tape.post(path, config_map("a" * 254))
    tape.post(path, {"metadata": {}})
    tape.post(path, {"metadata": {"name": "c", "labels": {"a b": "c d"}}})
    tape.post(path, {"metadata": {"name": "c", "labels": {"k": "v" * 64}}})
    tape.post(path, {"metadata": {"name": "c", "annotations": {"UPPER/ x": "1"}}})
    tape.post(path, {"metadata": {"name": "c", "namespace": "elsewhere"}})
    tape.post(tape.path("services"), service("9starts-with-a-digit"))
    tape.post(f"{CORE}/namespaces", {"metadata": {"name": "has.dot"}})


@script
def bodies_that_cannot_be_read_are_refused_as_bad_requests(tape: Tape) -> None:
    path = tape.path("configmaps")
    for body in (b"{", b"[]", b'"x"', b"", b"null"):
        tape.send("POST", path, body)
    tape.post(path, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}})
    tape.post(path, {"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "c"}})
    tape.post(path, {"metadata": {"name": "c"}, "data": {"a": 1}})
    tape.post(path, {"metadata": "x"})
    tape.post(tape.path("pods"), {"metadata": {"name": "p"}, "spec": {"containers": {}}})


@script
def a_put_to_another_name_or_kind_is_refused(tape: Tape) -> None:
    made = tape.post(tape.path("configmaps"), config_map()).body
    one = tape.path("configmaps", "c")
    tape.put(one, config_map("d"))
    tape.put(one, {**made, "metadata": {**made["metadata"], "namespace": "elsewhere"}})
    tape.put(one, {**made, "metadata": {**made["metadata"], "uid": "x"}})
    tape.put(tape.path("configmaps", "none"), config_map("none"))
    tape.put(tape.path("pods", "none"), pod("none"))


@script
def what_is_not_there_is_answered_with_404(tape: Tape) -> None:
    tape.get(tape.path("configmaps", "none"))
    tape.delete(tape.path("configmaps", "none"))
    tape.get(tape.path("deployments", "none", group="apps/v1"))
    tape.get(tape.path("jobs", "none", group="batch/v1"))
    tape.get(f"{CORE}/namespaces/contract-none")
    tape.get(f"{CORE}/namespaces/contract-none/pods")
    tape.post(f"{CORE}/namespaces/contract-none/configmaps", config_map())
    tape.get(tape.path("gadgets"))
    tape.get("/apis/none.example.com/v1/gadgets")
    tape.get("/apis/none.example.com")


@script
def methods_that_a_path_does_not_have_are_answered_with_405(tape: Tape) -> None:
    tape.put(tape.path("configmaps"), config_map())
    tape.post(tape.path("configmaps", "c"), config_map())
    tape.delete(f"{CORE}/namespaces")
    tape.merge(tape.path("configmaps"), {})
    tape.post(tape.path("pods", "p") + "/status", pod())


@script
def content_types_that_are_not_known_are_refused(tape: Tape) -> None:
    tape.post(tape.path("configmaps"), config_map())
    one = tape.path("configmaps", "c")
    tape.send("PATCH", one, {"data": {}}, kind=JSON)
    tape.send("PATCH", one, {"data": {}}, kind="text/plain")
    tape.send("POST", tape.path("configmaps"), b"x", kind="text/plain")
    tape.send("GET", one, accept="image/png")


@script
def a_generated_name_begins_as_it_was_asked_for(tape: Tape) -> None:
    body = {"metadata": {"generateName": "made-"}, "data": {}}
    tape.post(tape.path("configmaps"), body)
    tape.post(tape.path("configmaps"), body)


@script
def unknown_fields_are_warned_of_or_refused_as_asked(tape: Tape) -> None:
    path = tape.path("configmaps")
    body = {**config_map(), "nonsense": 1, "metadata": {"name": "c", "colour": "red"}}
    for validation in ("Ignore", "Warn", "Strict", "Perhaps"):
        tape.post(path, body, fieldValidation=validation, dryRun="All")
    tape.post(path, body)
    tape.send(
        "POST",
        tape.path("configmaps", fieldValidation="Strict"),
        b'{"metadata":{"name":"d"},"data":{"a":"1","a":"2"}}',
    )
    one = tape.path("configmaps", "c", fieldValidation="Strict")
    tape.send("PATCH", one, {"nonsense": 2}, kind=MERGE)
    spec = {**pod()["spec"], "containers": [{"name": "x", "image": "i", "comand": []}]}
    tape.post(tape.path("pods"), {**pod(), "spec": spec}, fieldValidation="Strict")


@script
def a_dry_run_answers_as_if_and_changes_nothing(tape: Tape) -> None:
    path, one = tape.path("configmaps"), tape.path("configmaps", "c")
    tape.post(path, config_map(), dryRun="All")
    tape.get(one)
    tape.post(path, config_map("Bad_"), dryRun="All")
    tape.post(path, config_map())
    tape.post(path, config_map(), dryRun="All")
    tape.merge(one, {"data": {"a": "2"}}, dryRun="All")
    tape.put(one, config_map(data={"a": "3"}), dryRun="All")
    tape.delete(one, dryRun="All")
    tape.delete(one, {"dryRun": ["All"]})
    tape.post(path, config_map("d"), dryRun="Some")
    tape.get(one)


@script
def an_object_with_finalizers_goes_when_the_last_is_removed(tape: Tape) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    made = tape.post(tape.path("configmaps"), body)
    one = tape.path("configmaps", "c")
    query = {"resourceVersion": made.version, "fieldSelector": "metadata.name=c"}
    with tape.watch(tape.path("configmaps"), **query) as stream:
        tape.delete(one)
        tape.delete(one)
        tape.post(tape.path("configmaps"), config_map())
        tape.merge(one, {"data": {"a": "still"}})
        tape.merge(one, {"metadata": {"finalizers": ["example.com/one", "example.com/three"]}})
        tape.merge(one, {"metadata": {"finalizers": ["example.com/one"]}})
        tape.merge(one, {"metadata": {"deletionTimestamp": None}})
        tape.merge(one, {"metadata": {"finalizers": None}})
        tape.get(one)
        events = stream.until(lambda event: event["type"] == "DELETED")
    tape.events("configmaps", events)


@script
def finalizers_have_names_with_a_domain(tape: Tape) -> None:
    for name in ("plain", "example.com/", "a b", "orphan"):
        body = config_map()
        body["metadata"]["finalizers"] = [name]
        tape.post(tape.path("configmaps"), body, dryRun="All")


@script
def metadata_of_the_server_cannot_be_written(tape: Tape) -> None:
    body = config_map()
    body["metadata"].update(
        uid="mine", resourceVersion="7", generation=5, creationTimestamp="2001-01-01T00:00:00Z"
    )
    tape.post(tape.path("configmaps"), body)
    del body["metadata"]["resourceVersion"]
    tape.post(tape.path("configmaps"), body)
    one = tape.path("configmaps", "c")
    tape.merge(one, {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}})
    tape.merge(one, {"metadata": {"uid": "mine"}})
    tape.merge(one, {"metadata": {"selfLink": "x", "generation": 9}})


@script
def annotations_have_a_size_limit(tape: Tape) -> None:
    body = config_map()
    body["metadata"]["annotations"] = {"a": "x" * 300_000}
    reply = tape.kube.send("POST", tape.path("configmaps"), body)
    tape.note("300,000 bytes", {"code": reply.code, "message": reply.body["message"]})


@script
def an_owner_reference_has_to_be_complete(tape: Tape) -> None:
    owner = tape.post(tape.path("configmaps"), config_map("owner"))
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    for missing in ("apiVersion", "kind", "name", "uid"):
        body = config_map("owned")
        body["metadata"]["ownerReferences"] = [
            {key: value for key, value in whole.items() if key != missing}
        ]
        tape.post(tape.path("configmaps"), body)
    body = config_map("owned")
    body["metadata"]["ownerReferences"] = [
        {**whole, "controller": True},
        {**whole, "name": "two", "uid": "u", "controller": True},
    ]
    tape.post(tape.path("configmaps"), body)


@script
def a_collection_is_deleted_by_selector(tape: Tape) -> None:
    path = tape.path("configmaps")
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        body = config_map(name)
        body["metadata"]["labels"] = {"colour": colour}
        tape.kube.must("POST", path, body)
    tape.delete(tape.path("configmaps", labelSelector="colour=red"))
    tape.get(tape.path("configmaps", labelSelector="colour"))
    tape.delete(tape.path("configmaps", labelSelector="colour=green"))
