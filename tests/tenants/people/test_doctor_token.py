"""The token of the doctor in the cluster, from the server's command line."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from tenants.actions import find_token
from tenants.models import ApiToken, Tenant, User

pytestmark = pytest.mark.django_db


def test_each_token_takes_the_place_of_the_one_before(settings: Settings) -> None:
    def made() -> str:
        out = StringIO()
        call_command("doctor_token", stdout=out)
        return out.getvalue().strip()

    with pytest.raises(CommandError, match="DOCTOR_USER is empty"):
        made()
    settings.DOCTOR_USER = "doctor"
    first, second = made(), made()
    assert find_token(first) is None
    token = find_token(second)
    assert token is not None
    assert (token.user.username, token.scope, ApiToken.objects.count()) == ("doctor", "submit", 1)
    assert Tenant.objects.get().owner == token.user


@pytest.mark.parametrize("came", [{"last_login": timezone.now()}, {"password": "of her own"}])
def test_a_person_who_signs_in_gets_none(settings: Settings, came: dict[str, Any]) -> None:
    settings.DOCTOR_USER = "doctor"
    User.objects.create(username="doctor", **({"password": "!"} | came))
    with pytest.raises(CommandError, match="doctor is a person who signs in"):
        call_command("doctor_token")
    assert not ApiToken.objects.exists()
