"""Django's sessions in the database, with a column for the person: they can be listed and ended.

Named in `settings.SESSION_ENGINE`. What a row tells of its browser is taken from the session's own
data when it is saved, so it survives Django's changes of the key (signing in, a new password).
"""

from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from tenants.people.models import Session

DEVICE = "device"  # {"id", "user_agent", "source_address", "signed_in_at"}


def device_of(*, user_agent: str, source_address: str) -> dict[str, str]:
    """What a new session remembers of its browser; kept in the session as `DEVICE`."""
    return {
        "id": str(uuid4()),
        "user_agent": user_agent.replace("\0", "")[:300],
        "source_address": source_address[:64],
        "signed_in_at": timezone.now().isoformat(),
    }


class SessionStore(DatabaseStore):
    """`row` is the row that was read, for those who want to know when it was last seen."""

    row: Session | None = None

    @classmethod
    def get_model_class(cls) -> Any:
        return Session

    def _get_session_from_db(self) -> Any:
        self.row = super()._get_session_from_db()  # type: ignore[misc]
        return self.row

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        made: Any = super().create_model_instance(data)
        user = data.get(SESSION_KEY)
        made.user_id = UUID(user) if user else None
        device = data.get(DEVICE)
        if device:
            made.id = UUID(device["id"])
            made.user_agent = device["user_agent"]
            made.source_address = device["source_address"]
            made.signed_in_at = parse_datetime(device["signed_in_at"])
        return made
