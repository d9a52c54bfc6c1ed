"""Makes the demo accounts on an empty database and prints how to sign in."""

import os
import secrets
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from portal.environment import secret_file
from tenants.models import Team, User

# user name, first name, role, place in the team
ACCOUNTS = (
    ("ada", "Ada", "researcher", "member"),
    ("lin", "Lin", "researcher", "member"),
    ("lee", "Lee", "researcher", "lead"),
    ("root", "Root", "admin", ""),
)
TEAM = "vision"


def demo_password() -> str:
    """HOMEPORT_DEMO_PASSWORD, else one made once and kept readable for the operator only."""
    return os.environ.get("HOMEPORT_DEMO_PASSWORD") or secret_file(
        settings.HOMEPORT_HOME / "demo_password", lambda: secrets.token_urlsafe(9)
    )


class Command(BaseCommand):
    """`manage.py demo`: harmless to repeat, and does nothing where people exist already."""

    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        password = demo_password()
        names = [name for name, *_ in ACCOUNTS]
        if not User.objects.exists():
            self._make(password)
        if set(User.objects.values_list("username", flat=True)) >= set(names):
            self.stdout.write(f"  Demo accounts: {', '.join(names)}; password: {password}")

    @transaction.atomic
    def _make(self, password: str) -> None:
        team = Team.objects.create(name=TEAM)
        for name, first_name, role, place in ACCOUNTS:
            user = User.objects.create_user(
                username=name,
                password=password,
                first_name=first_name,
                role=role,
                team=team if place else None,
            )
            if place == "lead":
                team.leads.add(user)
