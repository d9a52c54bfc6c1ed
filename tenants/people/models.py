"""Sessions with their person and device, the store that Django keeps them by, and counts of sign-ins."""

import uuid
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.log_lines import note

# Written out, for every request asks it: to compile it costs three times what the database does.
_BY_KEY = "SELECT * FROM tenants_session WHERE session_key = %s"
# In the session: {"id", "user_agent", "source_address", "signed_in_at"} of its browser.
DEVICE = "device"


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

    class Meta(AbstractBaseSession.Meta):
        db_table = "tenants_session"

    def __str__(self) -> str:
        return str(self.id)  # never the key, which is as good as a password

    @classmethod
    def get_session_store_class(cls) -> Any:
        return SessionStore


class SessionStore(DatabaseStore):
    """Django's sessions in the database, with a column for the person: they can be listed and ended.

    Found in the module that `settings.SESSION_ENGINE` names. What a row tells of its browser is
    taken from the session's own data when it is saved, so it survives Django's changes of the key
    (signing in, a new password).

    Attributes:
        row: what was read, for those who want to know when it was last seen.
    """

    row: Session | None = None

    @classmethod
    def get_model_class(cls) -> Any:
        return Session

    def _get_session_from_db(self) -> Any:
        found = next(iter(Session.objects.raw(_BY_KEY, [self.session_key])), None)
        if found is None or found.expire_date <= timezone.now():
            self._session_key = None  # as in Django: the key is not taken up again
            return None
        self.row = found
        note(user_id=str(found.user_id or ""))
        return found

    def remember_device(self, *, user_agent: str, source_address: str) -> None:
        """Says of a new session from which browser it comes."""
        self[DEVICE] = {
            "id": str(uuid.uuid4()),
            "user_agent": user_agent.replace("\0", "")[:300],
            "source_address": source_address[:64],
            "signed_in_at": timezone.now().isoformat(),
        }

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        made: Any = super().create_model_instance(data)
        user = data.get(SESSION_KEY)
        made.user_id = uuid.UUID(user) if user else None
        device = data.get(DEVICE)
        if device:
            made.id = uuid.UUID(device["id"])
            made.user_agent = device["user_agent"]
            made.source_address = device["source_address"]
            made.signed_in_at = parse_datetime(device["signed_in_at"])
        return made


class SignInCount(models.Model):
    """How often somebody has tried to sign in lately, counted under one key (`sign_in_limit.py`)."""

    # SHA-256 of "pair:<name>|<address>" or "address:<address>": what people type by mistake into
    # the field of the name (a password) is not kept.
    key = models.CharField(max_length=64, primary_key=True)
    count = models.IntegerField(default=0)
    since = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        db_table = "tenants_signincount"

    def __str__(self) -> str:
        return f"{self.count} since {self.since}"
