"""Forms of people: signing in, a password, an API token; and those of admins about people and teams."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from portal.web.forms import SpecForm
from tenants.models import BUDGET_COLUMNS, ApiToken, Team, User
from tenants.people.serializers import InvitationBody, PersonBody, TeamBody
from tenants.policy import NEW_ACCOUNT, AccountRole
from tenants.quota.rules import amount_text
from tenants.quota.serializers import amount_field

LIFETIMES_DAYS = (7, 30, 90)
PERSON_FIELDS = ("first_name", "last_name", "email", "role", "team")


def _password(label: Any, help_text: Any = "", autocomplete: str = "new-password") -> Any:
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(
        label=label, strip=False, max_length=1000, widget=widget, help_text=help_text
    )


class SignInForm(AuthenticationForm):
    """User name and password; says the same whichever of them is wrong."""

    error_messages = {
        "invalid_login": _("This user name and password do not match. Try again."),
        "inactive": _("This account is disabled. Ask your admin."),
    }

    username = forms.CharField(
        label=_("User name"),
        max_length=150,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "username",
                "autocapitalize": "none",
                "spellcheck": "false",
                "autofocus": True,
            }
        ),
    )
    password = _password(_("Password"), autocomplete="current-password")


class NewPasswordForm(forms.Form):
    """A password, twice."""

    new_password1 = _password(
        _("New password"), _("At least 8 characters, and no common password.")
    )
    new_password2 = _password(_("Repeat new password"))

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        self.user = user
        super().__init__(*args, **kwargs)

    def clean_new_password1(self) -> str:
        password: str = self.cleaned_data["new_password1"]
        validate_password(password, self.user)
        return password

    def clean_new_password2(self) -> str:
        again: str = self.cleaned_data["new_password2"]
        if again != self.cleaned_data.get("new_password1", again):
            raise ValidationError(_("The two passwords differ."), code="password_mismatch")
        return again


class ChangePasswordForm(NewPasswordForm):
    """The password until now, the new one twice, and whether API tokens end with the old one."""

    field_order = ["old_password", "new_password1", "new_password2"]

    old_password = _password(_("Current password"), autocomplete="current-password")
    revoke_tokens = forms.BooleanField(
        label=_("Revoke my API tokens too"), initial=True, required=False
    )

    def clean_old_password(self) -> str:
        old: str = self.cleaned_data["old_password"]
        if not self.user.check_password(old):
            raise ValidationError(_("This is not your current password."), code="wrong_password")
        return old


class TokenForm(forms.Form):
    """A new API token: what it is for, what it may do, for how long."""

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scope = forms.ChoiceField(label=_("Scope"), initial=ApiToken.Scope.SUBMIT, required=False)
    days = forms.TypedChoiceField(
        label=_("Expires in"),
        choices=[(days, _("%(days)s days") % {"days": days}) for days in LIFETIMES_DAYS],
        coerce=int,
        empty_value="30",
        initial=30,
        required=False,
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [
            (ApiToken.Scope.READ, _("read: look only")),
            (ApiToken.Scope.SUBMIT, _("submit: work as a researcher")),
        ]
        if user.may("administer"):
            choices.append((ApiToken.Scope.ADMIN, _("admin: all that admins may do")))
        scope = self.fields["scope"]
        assert isinstance(scope, forms.ChoiceField)
        scope.choices = choices

    @property
    def lifetime(self) -> timedelta:
        return timedelta(days=int(self.cleaned_data["days"]))

    def clean_scope(self) -> str:
        return self.cleaned_data["scope"] or ApiToken.Scope.SUBMIT


# --- what an admin writes about a person or a team ---
def invitation_form(posted: QueryDict | None) -> SpecForm:
    shown = {"role": NEW_ACCOUNT} if posted is None else None
    return SpecForm(InvitationBody().fields, posted, shown=shown)


def person_form(person: User, posted: QueryDict | None = None) -> SpecForm:
    """As the person is, or the texts that were sent; what is missing of these is empty."""
    fields = PersonBody().fields
    texts = {name: str(getattr(person, name) or "") for name in PERSON_FIELDS}
    shown = {**texts, "team": person.team.name if person.team else ""}
    chosen = {name: fields[name] for name in PERSON_FIELDS}
    return SpecForm(chosen, posted, shown=shown if posted is None else None)


def role_choices() -> list[tuple[str, str]]:
    return [(value, str(title)) for value, title in AccountRole.choices]


def team_choices() -> list[tuple[str, str]]:
    names = Team.objects.order_by("name").values_list("name", flat=True)
    return [("", str(_("No team"))), *((name, name) for name in names)]


def team_form(team: Team | None = None, posted: QueryDict | None = None) -> SpecForm:
    """As the team is, or the texts that were sent; without both as a new one is."""
    budget = {f"budget_{kind}": amount_field(kind) for kind in BUDGET_COLUMNS}
    was = _texts(team) if team is not None else {"weight": "1"}
    shown = was if posted is None else None
    own = {name: TeamBody().fields[name] for name in ("name", "weight")}
    return SpecForm({**own, **budget}, posted, shown=shown)


def _texts(team: Team) -> dict[str, str]:
    budget = {
        f"budget_{kind}": "" if amount is None else amount_text(kind, amount)
        for kind, amount in team.budget.items()
    }
    return {"name": team.name, "weight": str(team.weight), **budget}


def team_body(form: SpecForm) -> Mapping[str, Any]:
    """The form as a body of REST; an empty budget is no limit."""
    budget = {kind: form.values[f"budget_{kind}"] or None for kind in BUDGET_COLUMNS}
    weight = {"weight": form.values["weight"]} if form.values["weight"] else {}
    return {"name": form.values["name"], "budget": budget, **weight}
