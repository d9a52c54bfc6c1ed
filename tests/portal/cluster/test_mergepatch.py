"""Merge patches turn what is into what is wanted, and nothing else."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.cluster.mergepatch import difference, is_equal

trees = st.recursive(
    st.integers() | st.booleans() | st.sampled_from(["a", "b", "xyz"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=10,
)
documents = st.dictionaries(st.sampled_from("abcd"), trees, max_size=4)


def apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


@given(documents, documents)
def test_the_patch_leads_from_one_to_the_other(actual: dict[str, Any], wanted: dict[str, Any]):
    before = deepcopy(actual)
    assert is_equal(apply(actual, difference(actual, wanted)), wanted)
    assert actual == before


@given(documents)
def test_nothing_differs_from_itself(document: dict[str, Any]):
    assert difference(document, deepcopy(document)) == {}


def test_only_what_differs_is_sent():
    actual = {"hard": {"pods": "10", "cpu": "8", "extra": "1"}, "scopes": ["x"]}
    wanted = {"hard": {"pods": "20", "cpu": "8"}, "scopes": ["x"]}
    assert difference(actual, wanted) == {"hard": {"pods": "20", "extra": None}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.5", "500m", True),
        ("1Gi", "1024Mi", True),
        ("1", "2", False),
        ("a", "b", False),
        ("1", 1, False),
        ({"cpu": "1000m"}, {"cpu": "1"}, True),
        ({"cpu": "1"}, {"cpu": "1", "x": "1"}, False),
        (["1000m"], ["1"], True),
        (["1"], ["1", "1"], False),
    ],
)
def test_quantities_are_compared_by_value(one: Any, other: Any, same: bool):
    assert is_equal(one, other) is same
