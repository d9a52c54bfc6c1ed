"""Checks what is given about people and teams, by REST and by the admin's forms alike."""

import unicodedata
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.validators import UnicodeUsernameValidator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal import characters
from portal.web.rest import read
from tenants.models import Team, User
from tenants.people.actions import Invitation
from tenants.policy import AccountRole
from tenants.quota.rules import BUDGET_COLUMNS
from tenants.quota.serializers import amount_field

# Names that the audit trail uses for those who are nobody.
RESERVED_NAMES = frozenset({"homeport", "somebody"})


class _Body(serializers.Serializer[Any]):
    """A body in which every field is known."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(map(str, data)) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            problem = serializers.ErrorDetail(_("There is no such field."), code="unknown_field")
            raise serializers.ValidationError({name[:80]: problem for name in unknown})
        return super().to_internal_value(data)


class NameField(serializers.CharField):
    """A name that is shown to others: nothing in it turns the direction of text around."""

    default_error_messages = {
        "invalid_name": gettext_lazy(
            "This has a hidden character that changes the direction of text. Type it anew."
        )
    }

    def to_internal_value(self, data: Any) -> str:
        name: str = super().to_internal_value(data)
        if characters.has_bidi_controls(name):
            self.fail("invalid_name")
        return name


@extend_schema_field(str)
class TeamField(serializers.Field[Any, Any, Any, Any]):
    """A team by its name or id; null or empty: none."""

    default_error_messages = {"invalid_choice": gettext_lazy("There is no such team.")}

    def to_internal_value(self, data: Any) -> Team | None:
        if data == "":
            return None
        if not isinstance(data, str) or "\0" in data:
            self.fail("invalid_choice")
        try:
            found = Team.objects.filter(pk=UUID(data)).first()
        except ValueError:
            found = Team.objects.filter(name=data).first()
        if found is None:
            self.fail("invalid_choice")
        return found

    def to_representation(self, value: Team) -> str:
        return value.name


class PeopleField(serializers.ListField):
    """People by their user names."""

    child = serializers.CharField(max_length=150)

    def to_internal_value(self, data: Any) -> list[User]:
        names = super().to_internal_value(data)
        found = {user.username: user for user in User.objects.filter(username__in=names)}
        for name in names:
            if name not in found:
                problem = _("There is nobody of the name %(name)s.") % {"name": name}
                raise serializers.ValidationError(problem, code="invalid_choice")
        return list(found.values())


class PersonBody(_Body):
    """What can be changed of a person."""

    first_name = NameField(max_length=150, allow_blank=True, required=False)
    last_name = NameField(max_length=150, allow_blank=True, required=False)
    email = serializers.EmailField(max_length=254, allow_blank=True, required=False)
    role = serializers.ChoiceField(choices=AccountRole.choices, required=False)
    team = TeamField(allow_null=True, required=False)
    is_active = serializers.BooleanField(required=False)


class InvitationBody(PersonBody):
    """Somebody who is to join."""

    is_active = None  # type: ignore[assignment]
    username = serializers.CharField(max_length=150, validators=[UnicodeUsernameValidator()])

    def validate_username(self, name: str) -> str:
        name = unicodedata.normalize("NFKC", name)  # full-width "ada" is "ada"
        if not characters.is_one_script(name):
            problem = _("Use letters of one alphabet, so that no name looks like another.")
            raise serializers.ValidationError(problem, code="invalid_name")
        if name.lower() in RESERVED_NAMES:
            raise serializers.ValidationError(_("This name is taken."), code="name_taken")
        return name


class BudgetField(serializers.DictField):
    """Kind -> amount as Kubernetes writes it; null: no limit."""

    def to_internal_value(self, data: Any) -> dict[str, int | None]:
        if not isinstance(data, Mapping):
            self.fail("not_a_dict", input_type=type(data).__name__)
        amounts: dict[str, int | None] = {}
        for kind, value in data.items():
            if kind not in BUDGET_COLUMNS:
                problem = _("There is no such field.")
                detail = {str(kind)[:80]: serializers.ErrorDetail(problem, code="unknown_field")}
                raise serializers.ValidationError(detail)
            try:
                amounts[kind] = None if value is None else amount_field(kind).run_validation(value)
            except serializers.ValidationError as error:
                raise serializers.ValidationError({kind: error.detail}) from error
        return amounts


class TeamBody(_Body):
    """What can be changed of a team."""

    name = NameField(max_length=63)
    leads = PeopleField(required=False)
    budget = BudgetField(required=False)

    def validate_name(self, name: str) -> str:
        try:
            UUID(name)
        except ValueError:
            return name
        problem = _("This looks like an id; choose a name that people can say.")
        raise serializers.ValidationError(problem, code="invalid_name")


class ResetBody(_Body):
    """What goes along with a new password."""

    revoke_tokens = serializers.BooleanField(default=True)


def parse(body: type[_Body], given: Any, *, is_partial: bool = False) -> dict[str, Any]:
    """The checked values of a body.

    Raises:
        Refused: with every error found, by field.
    """
    values: dict[str, Any] = read(body(data=given, partial=is_partial))
    return values


def parse_invitation(given: Any) -> Invitation:
    """
    Raises:
        Refused: with every error found, by field.
    """
    return Invitation(**parse(InvitationBody, given))
