"""Rendering: no value can change the shape of a document."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.cluster.manifests import render
from portal.errors import ConfigurationError

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: {{ namespace | tojson }}
data:
  value: {{ value | tojson }}
  list: {{ [value, value] | tojson }}
"""


@dataclass(frozen=True)
class Context:
    value: object
    owner: str = "1c2d"
    namespace: str = "u-ada-00000000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("templates")


def write(folder: Path, text: str) -> str:
    name = f"{abs(hash(text))}.yaml.j2"
    (folder / name).write_text(text)
    return name


@pytest.mark.parametrize(
    "value",
    [
        "no",
        "~",
        "null",
        "0123",
        "2026-11-20",
        "{{ namespace }}",
        "{% raw %}",
        '1"\n    securityContext: {privileged: true}',
        "a: b # c",
        "<script>&'\"</script>",
        "😀",
        "\u2028\u2029\x85\x7f\ufeff",
        "\x00\x07",
        " leading and trailing ",
        "---\nkind: Secret",
    ],
)
def test_odd_texts_come_back_as_they_were(folder: Path, value: str):
    (document,) = render(write(folder, TEMPLATE), Context(value), folder=folder)
    assert document["data"] == {"value": value, "list": [value, value]}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_every_value_survives_the_round_trip(folder: Path, value: object):
    (document,) = render(write(folder, TEMPLATE), Context(value), folder=folder)
    assert document["data"] == {"value": value, "list": [value, value]}
    assert set(document) == {"apiVersion", "kind", "metadata", "data"}


def test_labels_and_hash_are_added(folder: Path):
    (document,) = render(write(folder, TEMPLATE), Context("x"), folder=folder)
    assert document["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "homeport",
        "homeport.dev/owner": "1c2d",
    }
    spec_hash = document["metadata"]["annotations"]["homeport.dev/spec-hash"]
    (again,) = render(write(folder, TEMPLATE), Context("x"), folder=folder)
    (other,) = render(write(folder, TEMPLATE), Context("y"), folder=folder)
    assert again["metadata"]["annotations"]["homeport.dev/spec-hash"] == spec_hash
    assert other["metadata"]["annotations"]["homeport.dev/spec-hash"] != spec_hash


def test_labels_reach_the_pods_of_a_job(folder: Path):
    text = """
apiVersion: batch/v1
kind: Job
metadata: {name: a, namespace: {{ namespace | tojson }}}
spec: {template: {metadata: {labels: {role: x}}, spec: {}}}
"""
    (job,) = render(write(folder, text), Context("x"), folder=folder)
    assert job["spec"]["template"]["metadata"]["labels"] == {
        "role": "x",
        "app.kubernetes.io/managed-by": "homeport",
        "homeport.dev/owner": "1c2d",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {{ value }}", "without `| tojson`"),
        ("a: {{ vlaue | tojson }}", "'vlaue' is undefined"),
        ("{% if %}", "Expected an expression"),
        ("a: [", "while parsing"),
        ("[1, 2]", "no mapping"),
        ("{apiVersion: v1, kind: Potato}", "'Potato'"),
        ("{apiVersion: v2, kind: Pod}", "apiVersion of Pod must be v1"),
        ("{apiVersion: v1, kind: Pod, metadata: {}}", "no metadata.name"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "namespace"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: kube-system}}", "kube-system"),
        ("{apiVersion: v1, kind: Namespace, metadata: {name: u-lin}}", "does not belong"),
        ("{apiVersion: v1, kind: Node, metadata: {name: u-ada-00000000}}", "does not belong"),
    ],
)
def test_what_is_no_object_of_ours_is_refused_in_words(folder: Path, text: str, words: str):
    with pytest.raises(ConfigurationError, match=words):
        render(write(folder, text), Context("x"), folder=folder)


@pytest.mark.parametrize("value", ["\ud800", float("nan"), object()])
def test_what_json_cannot_say_is_refused(folder: Path, value: object):
    with pytest.raises(ConfigurationError):
        render(write(folder, TEMPLATE), Context(value), folder=folder)


def test_a_missing_template_is_named(folder: Path):
    with pytest.raises(ConfigurationError, match=r"nothing\.yaml\.j2"):
        render("nothing.yaml.j2", Context("x"), folder=folder)
