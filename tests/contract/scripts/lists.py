"""Lists: pages, selectors, tables, versions."""

from __future__ import annotations

from tests.contract.bodies import config_map, pod
from tests.contract.kube import Json, address
from tests.contract.script import script
from tests.contract.tape import Tape

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def _make(tape: Tape, *names: str, **labels: str) -> None:
    for name in names:
        body = config_map(name)
        body["metadata"]["labels"] = {"of": "script", **labels}
        tape.kube.must("POST", tape.path("configmaps"), body)


def _names(body: Json) -> Json:
    return {**body, "items": [item["metadata"]["name"] for item in body["items"]]}


@script
def a_list_comes_in_pages_that_show_one_moment(tape: Tape) -> None:
    _make(tape, *"abcdefg")
    more = ""
    for number in range(4):
        query = {"limit": 3, "labelSelector": "of=script", **({"continue": more} if more else {})}
        body = tape.get(tape.path("configmaps", **query), show=_without_more).body
        more = body["metadata"].get("continue", "")
        tape.note("there is more", bool(more))
        if number == 0:
            _make(tape, "bb", "zz")  # not of that moment
        if not more:
            break


def _without_more(body: Json) -> Json:
    shown = _names(body)
    meta = {key: value for key, value in body["metadata"].items() if key != "continue"}
    return {**shown, "metadata": meta}


@script
def a_continue_token_that_is_none_is_refused(tape: Tape) -> None:
    tape.get(address(tape.path("configmaps"), {"limit": 1, "continue": "nonsense"}))
    tape.get(address(tape.path("pods"), {"limit": -1}))
    tape.get(address(tape.path("configmaps"), {"limit": "many"}))


@script
def label_selectors_choose(tape: Tape) -> None:
    _make(tape, "a", colour="red", size="1")
    _make(tape, "b", colour="blue")
    _make(tape, "c", colour="green", size="3")
    for selector in (
        "colour=red",
        "colour==red",
        "colour!=red,of=script",
        "colour in (red, blue)",
        "colour notin (red,blue),of",
        "size",
        "!size,of",
        "size>1",
        "size<3",
        "of=script,colour=none",
    ):
        tape.get(tape.path("configmaps", labelSelector=selector), show=_names)
    for selector in ("=", "colour in red", "a b", "colour=red,", "colour in ()", "x=y=z"):
        tape.get(tape.path("configmaps", labelSelector=selector))


@script
def field_selectors_choose_by_the_fields_of_their_kind(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod("a"))
    tape.kube.must("POST", tape.path("pods"), pod("b", node=None))
    tape.succeeds("a")
    for selector in (
        "metadata.name=a",
        "metadata.name!=a",
        "status.phase=Succeeded",
        "status.phase!=Succeeded",
        "status.phase!=Succeeded,status.phase!=Failed",
        "spec.nodeName=contract-node",
        "spec.nodeName=",
        "spec.restartPolicy=Always",
        "spec.schedulerName=default-scheduler,metadata.name=b",
    ):
        tape.get(tape.path("pods", fieldSelector=selector), show=_names)
    tape.get(tape.path("pods", fieldSelector="spec.colour=red"))
    tape.get(tape.path("configmaps", fieldSelector="data.a=1"))
    tape.get(tape.path("pods", fieldSelector="metadata.name"))


@script
def a_list_of_an_exact_or_a_future_version(tape: Tape) -> None:
    _make(tape, "a")
    version = tape.kube.get(tape.path("configmaps", "a")).version
    _make(tape, "b")
    path = tape.path("configmaps")
    selected = {"labelSelector": "of=script"}
    tape.get(address(path, {**selected, "resourceVersion": "0"}), show=lambda b: b["kind"])
    for match in ("Exact", "NotOlderThan"):
        query = {**selected, "resourceVersion": version, "resourceVersionMatch": match}
        reply = tape.kube.get(path, **query)
        tape.note(match, [item["metadata"]["name"] for item in reply.body["items"]])
    tape.get(address(path, {"resourceVersionMatch": "Exact"}))
    tape.get(address(path, {"resourceVersion": "0", "resourceVersionMatch": "Exact"}))
    tape.get(address(path, {"resourceVersion": "0", "resourceVersionMatch": "Sometimes"}))
    tape.get(address(path, {"resourceVersion": "x"}))


@script
def a_table_has_the_columns_that_kubectl_prints(tape: Tape) -> None:
    _make(tape, "a", "b")
    path = tape.path("configmaps", labelSelector="of=script")
    tape.send("GET", path, accept=TABLE)
    path = tape.path("configmaps", labelSelector="of=script", includeObject="None")
    tape.send("GET", path, accept=TABLE)
    tape.send("GET", tape.path("configmaps", "a"), accept=TABLE)
    tape.send("GET", tape.path("configmaps", "none"), accept=TABLE)


@script
def a_list_of_metadata_alone_has_nothing_else(tape: Tape) -> None:
    _make(tape, "a", "b")
    tape.send("GET", tape.path("configmaps", labelSelector="of=script"), accept=PARTIAL)
    one = PARTIAL.replace("List", "")
    tape.send("GET", tape.path("configmaps", "a"), accept=one)


@script
def a_list_over_all_namespaces_can_be_selected_by_namespace(tape: Tape) -> None:
    _make(tape, "a", "b")
    query = {"fieldSelector": f"metadata.namespace={tape.ns}", "labelSelector": "of=script"}
    tape.get(address("/api/v1/configmaps", query), show=_names)
