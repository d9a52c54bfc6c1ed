"""Watches: what comes, in which order, from which moment on."""

from __future__ import annotations

from tests.contract.bodies import config_map, pod
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
SELECTED = "of=script"


def _body(name: str, data: str = "1", **labels: str) -> Json:
    body = config_map(name, {"a": data})
    body["metadata"]["labels"] = {"of": "script", **labels}
    return body


def _version(tape: Tape) -> str:
    return tape.kube.get(tape.path("configmaps")).version


def _is_about(name: str, kind: str):
    return lambda e: e["type"] == kind and e["object"]["metadata"].get("name") == name


@script
def a_watch_from_a_list_tells_every_change_once_and_in_order(tape: Tape) -> None:
    path = tape.path("configmaps")
    with tape.watch(path, resourceVersion=_version(tape), labelSelector=SELECTED) as stream:
        tape.kube.must("POST", path, _body("a"))
        tape.kube.must("PUT", tape.path("configmaps", "a"), _body("a", "2"))
        tape.kube.must("POST", path, _body("b"))
        tape.kube.must("DELETE", tape.path("configmaps", "a"))
        tape.kube.must("PUT", tape.path("configmaps", "b"), _body("b", "2"))
        tape.kube.must("DELETE", tape.path("configmaps", "b"))
        tape.events(path, stream.until(_is_about("b", "DELETED")))


@script
def a_watch_goes_on_from_the_version_where_another_ended(tape: Tape) -> None:
    path = tape.path("configmaps")
    tape.kube.must("POST", path, _body("a"))
    middle = tape.kube.must("POST", path, _body("b"))["metadata"]["resourceVersion"]
    tape.kube.must("PUT", tape.path("configmaps", "a"), _body("a", "2"))
    tape.kube.must("DELETE", tape.path("configmaps", "b"))
    with tape.watch(path, resourceVersion=middle, labelSelector=SELECTED) as stream:
        tape.events(path, stream.until(_is_about("b", "DELETED")))


@script
def a_watch_without_a_version_begins_with_what_is_there(tape: Tape) -> None:
    path = tape.path("configmaps")
    for name in "ba":
        tape.kube.must("POST", path, _body(name))
    for query in ({}, {"resourceVersion": "0"}):
        with tape.watch(path, labelSelector=SELECTED, **query) as stream:
            first = [stream.next() for _ in range(2)]
            tape.kube.must("POST", path, _body("z"))
            last = stream.next()
            tape.kube.must("DELETE", tape.path("configmaps", "z"))
            stream.next()  # what answers at version 0 has heard of it, too
        first.sort(key=lambda event: event["object"]["metadata"]["name"])
        tape.events(path, [*first, last])


@script
def an_object_that_leaves_or_enters_a_selection_is_deleted_or_added(tape: Tape) -> None:
    path, one = tape.path("configmaps"), tape.path("configmaps", "a")
    query = {"resourceVersion": _version(tape), "labelSelector": "colour=red"}
    with tape.watch(path, **query) as stream:
        tape.kube.must("POST", path, _body("a", colour="blue"))
        tape.kube.must("PUT", one, _body("a", colour="red"))
        tape.kube.must("PUT", one, _body("a", "2", colour="red"))
        tape.kube.must("PUT", one, _body("a", "3", colour="blue"))
        tape.kube.must("PUT", one, _body("a", "4", colour="red"))
        tape.kube.must("DELETE", one)
        events = stream.until(_is_about("a", "DELETED"))
        events += stream.until(_is_about("a", "DELETED"))
        tape.events(path, events)


@script
def a_watch_of_one_phase_tells_when_a_pod_leaves_it(tape: Tape) -> None:
    path = tape.path("pods")
    version = tape.kube.get(path).version
    query = {"resourceVersion": version, "fieldSelector": "status.phase!=Succeeded"}
    with tape.watch(path, **query) as stream:
        tape.kube.must("POST", path, pod())
        tape.runs("p")
        tape.succeeds("p")
        events = stream.until(_is_about("p", "DELETED"))
    tape.events(path, events, show=lambda obj: obj["status"]["phase"])


@script
def a_watch_with_bookmarks_ends_with_one(tape: Tape) -> None:
    path = tape.path("configmaps")
    query = {"resourceVersion": _version(tape), "allowWatchBookmarks": "true"}
    with tape.watch(path, timeoutSeconds=3, labelSelector=SELECTED, **query) as stream:
        tape.kube.must("POST", path, _body("a"))
        tape.events(path, stream.rest(), show=_without_version_of_bookmarks)


def _without_version_of_bookmarks(obj: Json) -> Json:
    if "data" in obj:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "<version>"}}


@script
def a_version_that_is_too_old_is_answered_with_410_in_the_stream(tape: Tape) -> None:
    path = tape.path("configmaps")
    with tape.watch(path, resourceVersion="1") as stream:
        tape.note("code", stream.code)
        tape.events(path, stream.rest())


@script
def a_version_that_is_none_is_refused(tape: Tape) -> None:
    tape.get(tape.path("configmaps", watch="true", resourceVersion="x"))
    tape.get(tape.path("configmaps", watch="true", resourceVersion="-1"))
    tape.get(tape.path("configmaps", watch="true", labelSelector="=="))
    tape.get(tape.path("configmaps", watch="true", fieldSelector="data.a=1"))


@script
def initial_events_end_with_a_marked_bookmark(tape: Tape) -> None:
    path = tape.path("configmaps")
    tape.kube.must("POST", path, _body("a"))
    query = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
        "labelSelector": SELECTED,
    }
    with tape.watch(path, **query) as stream:
        events = stream.until(lambda event: event["type"] == "BOOKMARK")
    tape.events(path, events, show=_without_version_of_bookmarks)
    tape.get(tape.path("configmaps", watch="true", sendInitialEvents="true"))
    wrong = {**query, "resourceVersionMatch": "Exact"}
    tape.get(tape.path("configmaps", watch="true", **wrong))


@script
def a_watch_of_metadata_alone_sends_nothing_else(tape: Tape) -> None:
    path = tape.path("configmaps")
    version = _version(tape)
    with tape.watch(
        path, accept=PARTIAL, resourceVersion=version, labelSelector=SELECTED
    ) as stream:
        tape.kube.must("POST", path, _body("a"))
        tape.kube.must("DELETE", tape.path("configmaps", "a"))
        tape.events(path, stream.until(lambda event: event["type"] == "DELETED"))


@script
def one_object_can_be_watched_by_its_name(tape: Tape) -> None:
    path = tape.path("configmaps")
    query = {"resourceVersion": _version(tape), "fieldSelector": "metadata.name=a"}
    with tape.watch(path, **query) as stream:
        tape.kube.must("POST", path, _body("b"))
        tape.kube.must("POST", path, _body("a"))
        tape.kube.must("DELETE", tape.path("configmaps", "a"))
        tape.events(path, stream.until(lambda event: event["type"] == "DELETED"))
