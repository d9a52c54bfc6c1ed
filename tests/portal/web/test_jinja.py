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


def test_what_a_template_names_outright_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def text(message: str, **values: str) -> str:
        asked.append(message)
        return message % values

    monkeypatch.setitem(pages.env.globals, "_", text)
    template = pages.from_string("{{ _('<i>') }} {{ _(word) }} {{ _('%(who)s', **{'who': word}) }}")
    assert [template.render({"word": word}) for word in "ab"] == ["&lt;i&gt; a a", "&lt;i&gt; b b"]
    assert asked == ["<i>", "a", "%(who)s", "b", "%(who)s"]


def test_a_template_may_name_what_is_not_installed_behind_a_condition() -> None:
    template = "{% if there %}{{ url('of-an-app-that-is-not-there') }}{% endif %}"
    assert pages.from_string(template).render({"there": False}) == ""
