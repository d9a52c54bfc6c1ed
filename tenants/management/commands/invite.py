"""Invites somebody from the server's command line: the first admin, or a way back in."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from portal.errors import Refused
from portal.web.rest import read
from tenants.models import User
from tenants.people import actions
from tenants.people.serializers import InvitationBody
from tenants.policy import NEW_ACCOUNT, AccountRole


class Command(BaseCommand):
    """`manage.py invite NAME [--role admin]` prints the link by which NAME sets a password."""

    help = "Invite somebody, or create a new password link for a person who exists already."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--role", choices=AccountRole.values, default=NEW_ACCOUNT)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["username"]
        person = User.objects.filter(username=name).first()
        try:
            if person is None:
                given = {"username": name, "role": options["role"]}
                _person, link = actions.invite(by=None, given=read(InvitationBody(data=given)))
            else:
                link = actions.reset(by=None, person=person)
        except Refused as refusal:
            raise CommandError(refusal.text) from refusal
        self.stdout.write(f"{settings.WEBSOCKET_ORIGINS[0]}{reverse('join', args=[link.key])}")
        self.stdout.write(f"It works once, until {link.expires_at:%d %b %Y, %H:%M} UTC.")
