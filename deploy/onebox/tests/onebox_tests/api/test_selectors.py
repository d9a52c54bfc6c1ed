"""Label and field selectors choose what upstream's choose."""

from __future__ import annotations

import pytest

from onebox.api.rules.labels import selects
from onebox.api.selectors import parse_fields, parse_labels
from onebox.api.status import StatusError

from .conftest import Obj

OBJ: Obj = {
    "metadata": {"name": "a", "namespace": "lab", "labels": {"app": "web", "n": "5", "e": ""}},
    "spec": {"nodeName": "box"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        (None, True),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=db", True),
        ("missing!=x", True),
        ("app", True),
        ("!app", False),
        ("missing", False),
        ("!missing", True),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db, x)", True),
        ("missing notin (x)", True),
        ("e=", True),
        ("e in (,x)", True),
        ("n>4", True),
        ("n<4", False),
        ("app>4", False),
        ("app=web,n=5,!missing", True),
        ("app in (web,db),n=6", False),
        ("example.com/app=x", False),
    ],
)
def test_label_selectors_choose(text: str | None, chosen: bool) -> None:
    assert parse_labels(text)(OBJ) is chosen


@pytest.mark.parametrize(
    "text", ["a=b=c", "app in web", "a b", "=x", "app in (a b)", "a/b/c=d", "x" * 20_000, "a=b;c"]
)
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("plural", "text", "chosen"),
    [
        ("pods", "metadata.name=a", True),
        ("pods", "metadata.name!=a", False),
        ("pods", "spec.nodeName=box,status.phase=Running", True),
        ("pods", "status.phase!=Running,status.phase!=Pending", False),
        ("pods", "spec.hostNetwork=false", True),
        ("pods", "status.podIP=", True),
        ("configmaps", "metadata.namespace=lab", True),
    ],
)
def test_field_selectors_choose(plural: str, text: str, chosen: bool) -> None:
    assert parse_fields(plural, text)(OBJ) is chosen


@pytest.mark.parametrize(
    ("plural", "text"),
    [("pods", "spec.image=x"), ("configmaps", "status.phase=x"), ("pods", "metadata.name")],
)
def test_fields_that_upstream_does_not_index_are_refused(plural: str, text: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(plural, text)
    assert refused.value.code == 400


def test_selectors_inside_objects_choose() -> None:
    labels = {"app": "web"}
    assert selects({"matchLabels": {"app": "web"}}, labels)
    assert not selects(None, labels)
    assert selects({}, labels)
    term = {"key": "app", "operator": "NotIn", "values": ["db"]}
    assert selects({"matchExpressions": [term]}, labels)
    assert not selects({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, labels)
