"""Objects as YAML: every document reads to the letter as PyYAML writes it."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from portal.cluster import yaml_text

_JSON = "{\n" + ',\n "text": "as in a ConfigMap"' * 12 + "\n}"
ODD = [
    *("", "true", "Yes", "null", "~", "0", "012", "0x1f", "1e3", "1_000", "1:30", "2026-11-20"),
    *("0e345678-1e34-1234-1234-123456789012", "12345678-1234-1234-1234-123456789012"),
    *("-", "--x", "=", "<<", "a: b", "a #b", "a:", "@x", "%x", "*x", "[x]", "12m", "4Gi", "5k"),
    *(
        "a:b/c@d",
        "ü",
        "🎉",
        "x" * 200,
        "a b " * 60,
        " a",
        "a ",
        "a\n",
        "a\n b\n",
        "\x07",
        "a\x85b",
        _JSON,
    ),
]
texts = st.sampled_from(ODD) | st.text(max_size=100)
keys = st.sampled_from(["name", "app.kubernetes.io/managed-by", "x" * 120, *ODD])
values = st.recursive(
    texts | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


def of_pyyaml(documents: Any) -> str:
    text = str(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True))
    has_other_ends = any(end in text for end in "\x85\u2028\u2029")
    return str(yaml.safe_dump_all(documents, sort_keys=False)) if has_other_ends else text


@given(st.lists(st.dictionaries(keys, values, max_size=3), max_size=3))
def test_any_documents_read_as_pyyaml_writes_them(documents: Any) -> None:
    assert yaml_text.dump(documents) == of_pyyaml(documents)


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("depth", [0, 1, 7])
def test_a_text_is_folded_by_where_it_stands(text: str, depth: int) -> None:
    value: Any = {"command": ["sh", text, {"value": text}], "env": text}
    for _ in range(depth):
        value = {"spec": value}
    assert yaml_text.dump([value]) == of_pyyaml([value])
    assert yaml.safe_load(yaml_text.dump([value])) == value
