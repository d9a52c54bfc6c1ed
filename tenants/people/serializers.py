"""What is sent about people and teams, by REST and by the forms of admins alike."""

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
from portal.web.fields import Body
from tenants.audit.record import HOMEPORT, SOMEBODY
from tenants.models import BUDGET_COLUMNS, Team, User
from tenants.policy import AccountRole
from tenants.quota.serializers import WeightField, amount_field, confirm_field

# Names that the audit trail uses for those who are nobody.
RESERVED_NAMES = frozenset({HOMEPORT, SOMEBODY})


class NameField(serializers.CharField):
    """A name that is shown to others: nothing in it turns the direction of text around."""

    default_error_messages = {
        "invalid_name": gettext_lazy(
            "This has a hidden character that changes the direction of text. Type it again."
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
                problem = _("There is no person with the user name %(name)s.") % {"name": name}
                raise serializers.ValidationError(problem, code="invalid_choice")
        return list(found.values())


class PersonBody(Body):
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


@extend_schema_field({"type": "object", "additionalProperties": {}})
class BudgetBody(Body):
    """Kind -> amount as Kubernetes writes it; null: no limit."""

    default_error_messages = {
        "not_a_dict": serializers.DictField.default_error_messages["not_a_dict"]
    }

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            kind: amount_field(kind, required=False, allow_null=True) for kind in BUDGET_COLUMNS
        }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            self.fail("not_a_dict", input_type=type(data).__name__)
        return super().to_internal_value(data)


class TeamBody(Body):
    """What can be changed of a team."""

    name = NameField(max_length=63)
    leads = PeopleField(required=False)
    budget = BudgetBody(required=False)
    weight = WeightField()

    def validate_name(self, name: str) -> str:
        try:
            UUID(name)
        except ValueError:
            return name
        problem = _("This looks like an id; choose a name that people can pronounce.")
        raise serializers.ValidationError(problem, code="invalid_name")


class TeamChangeBody(TeamBody):
    """The same of a team that is there, whose weight may take from others."""

    confirm = confirm_field()


class ResetBody(Body):
    """What goes along with a new password."""

    revoke_tokens = serializers.BooleanField(default=True)
