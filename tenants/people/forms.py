"""Forms of people: signing in, a new password, a new API token."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from tenants.models import ApiToken, User

LIFETIMES_DAYS = (7, 30, 90)


class SignInForm(AuthenticationForm):
    """User name and password; says the same whichever of them is wrong."""

    error_messages = {
        "invalid_login": _("This user name and password do not go together. Try again."),
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
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


def _new_password(label: Any, help_text: Any = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(
        label=label, strip=False, max_length=1000, widget=widget, help_text=help_text
    )


class NewPasswordForm(forms.Form):
    """A password, twice."""

    new_password1 = _new_password(
        _("New password"), _("At least 8 characters, and none that many people use.")
    )
    new_password2 = _new_password(_("Repeat the password"))

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
            raise ValidationError(_("This is not the same as above."), code="password_mismatch")
        return again


class ChangePasswordForm(NewPasswordForm):
    """The password until now, the new one twice, and whether API tokens end with the old one."""

    field_order = ["old_password", "new_password1", "new_password2"]

    old_password = forms.CharField(
        label=_("Current password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    revoke_tokens = forms.BooleanField(
        label=_("Revoke my API tokens too"), initial=True, required=False
    )

    def clean_old_password(self) -> str:
        old: str = self.cleaned_data["old_password"]
        if not self.user.check_password(old):
            raise ValidationError(_("This is not your password."), code="wrong_password")
        return old


class TokenForm(forms.Form):
    """A new API token: what it is for, what it may do, for how long."""

    name = forms.CharField(
        label=_("What is it for?"),
        max_length=80,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scope = forms.ChoiceField(
        label=_("What may it do?"), initial=ApiToken.Scope.SUBMIT, required=False
    )
    days = forms.TypedChoiceField(
        label=_("For how long?"),
        choices=[(days, _("%(days)s days") % {"days": days}) for days in LIFETIMES_DAYS],
        coerce=int,
        empty_value="30",
        initial=30,
        required=False,
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [
            (ApiToken.Scope.READ, _("Only look (read)")),
            (ApiToken.Scope.SUBMIT, _("Work as a researcher (submit)")),
        ]
        if user.may("administer"):
            choices.append((ApiToken.Scope.ADMIN, _("Everything an admin may (admin)")))
        scope = self.fields["scope"]
        assert isinstance(scope, forms.ChoiceField)
        scope.choices = choices

    @property
    def lifetime(self) -> timedelta:
        return timedelta(days=int(self.cleaned_data["days"]))

    def clean_scope(self) -> str:
        return self.cleaned_data["scope"] or ApiToken.Scope.SUBMIT
