"""Sessions with their person and device, and counts of tries to sign in."""

import uuid
from typing import Any

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone


class Session(AbstractBaseSession):
    """One browser that is (or was) signed in; the session of Django with its person beside it.

    Deleting the row ends the session at once: nothing of it is kept in the browser but its key.
    """

    # Names the session in addresses, where its key must not appear. Not unique: when Django changes
    # the key, the old row and the new one are there together for a moment.
    id = models.UUIDField(db_index=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        "tenants.User", null=True, on_delete=models.CASCADE, related_name="sessions"
    )
    user_agent = models.CharField(max_length=300, blank=True, default="")
    source_address = models.CharField(max_length=64, blank=True, default="")
    signed_in_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return str(self.id)  # never the key, which is as good as a password

    @classmethod
    def get_session_store_class(cls) -> Any:
        from tenants.people.session_store import SessionStore  # it imports this module

        return SessionStore


class SignInCount(models.Model):
    """How often somebody has tried to sign in lately, counted under one key (`sign_in_limit.py`)."""

    # SHA-256 of "pair:<name>|<address>" or "address:<address>": what people type by mistake into
    # the field of the name (a password) is not kept.
    key = models.CharField(max_length=64, primary_key=True)
    count = models.IntegerField(default=0)
    since = models.DateTimeField(default=timezone.now, db_index=True)

    def __str__(self) -> str:
        return f"{self.count} since {self.since}"
