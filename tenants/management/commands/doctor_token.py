"""Gives the doctor in the cluster a token, and a person and a namespace of its own with the first one."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from portal.web.rest import read
from tenants.actions import create_token, ensure_tenant, revoke_token
from tenants.models import ApiToken, User
from tenants.people import actions
from tenants.people.serializers import InvitationBody

NAME = "doctor in the cluster"


class Command(BaseCommand):
    """`manage.py doctor_token` prints a new token of DOCTOR_USER; the one before is revoked."""

    help = "Print a new token for the doctor in the cluster, good for 90 days."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        name = settings.DOCTOR_USER
        if not name:
            raise CommandError("DOCTOR_USER is empty: it names the person as whom doctor works.")
        person = User.objects.filter(username=name).first()
        tokens = ApiToken.objects.filter(user=person, name=NAME)
        if person is None:
            given = {"username": name, "first_name": "Doctor"}
            person, _link = actions.invite(by=None, given=read(InvitationBody(data=given)))
        elif not (tokens or User.objects.filter(actions.NOT_JOINED, pk=person.pk)):
            raise CommandError(
                f"{name} is a person who signs in, and gets no token of doctor's. Set DOCTOR_USER to a "
                "name that nobody has, and try again."
            )
        ensure_tenant(user=person)
        for token in tokens:
            revoke_token(by=person, token=token)
        _token, plain = create_token(by=person, name=NAME, scope=ApiToken.Scope.SUBMIT)
        self.stdout.write(plain)
