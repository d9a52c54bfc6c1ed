"""The form that asks which finished trainings are to be deleted: how old, and how they ended."""

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from portal.quantity import duration_s

AGES = (
    ("0s", _("at any time")),
    ("1d", _("over 1 day ago")),
    ("7d", _("over 7 days ago")),
    ("30d", _("over 30 days ago")),
    ("90d", _("over 90 days ago")),
    ("365d", _("over a year ago")),
)
STATES = (("succeeded", _("Succeeded")), ("failed", _("Failed")), ("stopped", _("Stopped")))
_AT_FIRST = {"older_than": "30d", "states": [state for state, _title in STATES]}


class PruneForm(forms.Form):
    """All states and 30 days until somebody has chosen."""

    older_than = forms.ChoiceField(choices=AGES)
    states = forms.MultipleChoiceField(
        choices=STATES, error_messages={"required": _("Select at least one state.")}
    )

    def __init__(self, asked: QueryDict) -> None:
        super().__init__(asked if "older_than" in asked else _AT_FIRST)

    @property
    def chosen(self) -> dict[str, Any]:
        """What `actions.prune` is asked for; only of a valid form."""
        values = self.cleaned_data
        return {"older_than_s": duration_s(values["older_than"]), "states": values["states"]}
