"""The form that asks which finished trainings are to be deleted: how old, and how they ended."""

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from jobs.workloads.timeline import END_TITLES
from portal.quantity import duration_s

AGES = (
    ("0s", _("at any time")),
    ("1d", _("over 1 day ago")),
    ("7d", _("over 7 days ago")),
    ("30d", _("over 30 days ago")),
    ("90d", _("over 90 days ago")),
    ("365d", _("over a year ago")),
)
STATES = tuple((state.value, title) for state, title in END_TITLES.items())
_AT_FIRST = {"older_than": "30d", "states": [state for state, _title in STATES]}


class PruneForm(forms.Form):
    """What is counted, and then deleted."""

    older_than = forms.ChoiceField(
        choices=AGES, error_messages={"required": _("Select how long ago they ended.")}
    )
    states = forms.MultipleChoiceField(
        choices=STATES, error_messages={"required": _("Select at least one state.")}
    )

    # As the page that counted them said, and not chosen by anybody.
    before = forms.DateTimeField(required=False)

    def __init__(self, asked: QueryDict, *, has_defaults: bool) -> None:
        """`has_defaults`: all states and 30 days until somebody has chosen; never to delete."""
        is_new = has_defaults and "older_than" not in asked
        super().__init__(_AT_FIRST if is_new else asked)

    @property
    def chosen(self) -> dict[str, Any]:
        """What `actions.prune` is asked for; only of a valid form."""
        values = self.cleaned_data
        older_than_s = duration_s(values["older_than"])
        return {"older_than_s": older_than_s, **{k: values[k] for k in ("states", "before")}}
