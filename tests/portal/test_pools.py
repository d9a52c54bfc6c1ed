"""Which node belongs to which pool, and whether its pods can come to its nodes and to no others."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.pools import Pool, candidates, get_pool, node_terms, pool_of

some_labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"))
pool_lists = st.lists(some_labels.filter(bool), max_size=4).map(
    lambda selectors: [
        Pool(name=f"p{place}", node_selector=selector) for place, selector in enumerate(selectors)
    ]
)


def meets(term: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators"""
    return all(
        (labels.get(one["key"]) in one["values"]) == (one["operator"] == "In") for one in term
    )


@given(pool_lists, some_labels)
def test_each_node_takes_the_pods_of_its_own_pool_only(pools: list[Pool], labels) -> None:
    own = pool_of(labels, pools)
    for name in {"default", *(pool.name for pool in pools)} if pools else ():
        terms = node_terms(get_pool(name, pools), pools)
        assert any(meets(term, labels) for term in terms) == (name == own.name)
        assert all(terms)  # one without conditions would hold nowhere
    assert pools or node_terms(own, pools) == []


POOLS = msgspec.convert(
    [
        {"name": "a100", "node_selector": {"gpu": "a100"}, "teams": ["vision"]},
        {"name": "t4", "node_selector": {"gpu": "t4"}},
    ],
    list[Pool],
)


@pytest.mark.parametrize(
    ("asked", "team", "has_gpu", "found"),
    [
        (None, "vision", True, ("a100", "t4", "default")),
        (None, "vision", False, ("default", "a100", "t4")),
        (None, None, True, ("t4", "default")),
        ("a100", "vision", False, ("a100",)),
        ("a100", "audio", True, ()),
        ("a100", None, True, ()),
        ("default", None, True, ("default",)),
        ("gone", "vision", True, ()),
    ],
)
def test_where_it_may_run(asked, team, has_gpu, found) -> None:
    assert candidates(asked, POOLS, team, has_gpu=has_gpu) == found
    assert candidates(None, [], team, has_gpu=has_gpu) == ("default",)
