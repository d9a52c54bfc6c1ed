"""Templates: what they keep is never printed as something that it is not."""

from typing import Any

import pytest
from django.template import engines

pages: Any = engines["jinja2"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ _('%(who)s of 100%%', who=name) }}", "&lt;i&gt; of 100%"),
        ("{{ ngettext('%(num)s for %(who)s', '%(num)s', 1, who=name) }}", "1 for &lt;i&gt;"),
        ("{{ ngettext('one', '%(num)s', 2) }}", "2"),
    ],
)
def test_values_in_texts_are_escaped(template: str, text: str) -> None:
    assert pages.from_string(template).render({"name": "<i>"}) == text


def test_a_memoized_macro_does_not_take_text_for_markup() -> None:
    template = (
        "{% macro _bold(x) %}<b>{{ x }}</b>{% endmacro %}{% set bold = _bold|memoized %}"
        "{{ bold(name|safe) }}{{ bold(name) }}"
    )
    found = pages.from_string(template).render({"name": "<i>"})
    assert found == "<b><i></b><b>&lt;i&gt;</b>"
