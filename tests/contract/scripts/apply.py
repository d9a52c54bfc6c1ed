"""Server-side apply, as kubectl and controllers use it."""

from __future__ import annotations

from tests.contract.bodies import config_map, deployment
from tests.contract.kube import APPLY, Json
from tests.contract.script import script
from tests.contract.tape import Tape, pick


def _owners(obj: Json) -> list[list[str]]:
    """Who manages what, without times, by which they are ordered."""
    found = [
        [entry["manager"], entry["operation"], entry.get("subresource", ""), entry["fieldsV1"]]
        for entry in obj["metadata"].get("managedFields", [])
    ]
    return sorted(found, key=lambda entry: entry[:3])


def _with_owners(obj: Json) -> Json:
    return {"data": obj.get("data"), "managers": _owners(obj)}


def _make(name: str = "c", **data: str) -> Json:
    return config_map(name, data)


@script
def apply_makes_changes_and_removes_what_is_not_applied_any_more(tape: Tape) -> None:
    one = tape.path("configmaps", "c")
    tape.apply(one, _make(a="1", b="2"), show=_with_owners)
    tape.apply(one, _make(a="1", b="2"), show=pick("metadata.resourceVersion"))
    tape.apply(one, _make(a="3"), show=_with_owners)
    tape.get(one)


@script
def apply_of_what_another_manager_owns_is_a_conflict(tape: Tape) -> None:
    one = tape.path("configmaps", "c")
    tape.apply(one, _make(a="1"), show=_with_owners)
    tape.apply(one, _make(a="2", b="1"), fieldManager="second")
    tape.apply(one, _make(a="1", b="1"), fieldManager="second", show=_with_owners)
    tape.apply(one, _make(a="2", b="1"), fieldManager="second", force="true", show=_with_owners)
    tape.apply(one, _make(b="9"), fieldManager="second", show=_with_owners)
    tape.merge(one, {"data": {"b": "10"}}, show=_with_owners, fieldManager="third")
    tape.apply(one, _make(b="9"), fieldManager="second")


@script
def apply_merges_lists_by_their_key(tape: Tape) -> None:
    one = tape.path("deployments", "d", group="apps/v1")
    show = pick("metadata.generation", "spec.template.spec.containers")
    tape.apply(one, deployment(replicas=0), show=show)
    extra = deployment(replicas=0)
    spec = extra["spec"]["template"]["spec"]
    only = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    side = {"name": "side", "image": "other", "env": [{"name": "A", "value": "1"}]}
    body = {**only, "spec": {"template": {"spec": {"containers": [side]}}}}
    tape.apply(one, body, fieldManager="second", show=show)
    spec["containers"][0]["env"] = [{"name": "B", "value": "2"}]
    tape.apply(one, extra, show=show)
    body["spec"]["template"]["spec"]["containers"] = []
    tape.apply(one, body, fieldManager="second", show=show)


@script
def apply_needs_a_manager_and_a_whole_name(tape: Tape) -> None:
    one = tape.path("configmaps", "c")
    tape.send("PATCH", one, _make(a="1"), kind=APPLY)
    tape.apply(one, {"data": {"a": "1"}})
    tape.apply(one, _make("other", a="1"))
    tape.apply(one, {**_make(a="1"), "kind": "Secret"})
    tape.apply(one, {**_make(a="1"), "nonsense": "x"}, fieldValidation="Strict")
    tape.apply(one, {**_make(a="1"), "metadata": {"name": "c", "managedFields": []}})
    tape.send("PATCH", one + "?fieldManager=x", b"a: [", kind=APPLY)
    tape.apply(one, _make(a="1"), dryRun="All", show=pick("data"))
    tape.get(one)


@script
def who_changed_what_is_kept_with_the_object(tape: Tape) -> None:
    made = tape.post(tape.path("configmaps"), _make(a="1"), fieldManager="first", show=_with_owners)
    one = tape.path("configmaps", "c")
    tape.put(
        one, {**made.body, "data": {"a": "2", "b": "3"}}, fieldManager="second", show=_with_owners
    )
    tape.merge(one, {"metadata": {"labels": {"x": "y"}}}, fieldManager="first", show=_with_owners)
    tape.put(one, _make(b="3"), fieldManager="third", show=_with_owners)
    tape.merge(one, {"metadata": {"managedFields": [{}]}}, fieldManager="first", show=_with_owners)
