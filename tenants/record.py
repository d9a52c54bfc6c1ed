"""What stands on each namespace in the cluster of whose it is, so that a database which has lost the
row can make it again: `manage.py adopt`.

No secrets: whoever may read namespaces reads it.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from django.conf import settings

from tenants.models import QUOTA_COLUMNS, Tenant

VERSION = 1  # of the record; one that older code cannot read has the next number

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RecordedUser(msgspec.Struct, frozen=True):
    id: UUID
    username: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""


class RecordedTeam(msgspec.Struct, frozen=True):
    id: UUID
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One namespace; numbers by the columns of `Tenant`.

    Attributes:
        portal: POD_PORTAL_URL of the installation that made it; no two on one cluster share it.
    """

    version: int = VERSION
    portal: str
    user: RecordedUser
    team: RecordedTeam | None = None
    is_open: bool = True  # neither suspended nor deleted
    quota_cpu_millicores: Amount
    quota_memory_bytes: Amount
    quota_gpu_count: Count
    quota_pods: Count
    quota_nodeports: Count
    data_volume_bytes: Amount
    log_volume_bytes: Amount

    @property
    def columns(self) -> dict[str, int]:
        """Quota and volumes, as `Tenant` has them."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = (*QUOTA_COLUMNS.values(), "data_volume_bytes", "log_volume_bytes")


class _Version(msgspec.Struct):
    version: int


def record_text(tenant: Tenant) -> str:
    """The annotation of a tenant's namespace: JSON, the same as long as the row is."""
    owner, team = tenant.owner, tenant.team
    made = Record(
        portal=settings.POD_PORTAL_URL,
        user=RecordedUser(owner.pk, owner.username, owner.first_name, owner.last_name, owner.email),
        team=RecordedTeam(team.pk, team.name) if team is not None else None,
        is_open=tenant.desired == Tenant.Desired.ACTIVE,
        **{name: getattr(tenant, name) for name in _COLUMNS},
    )
    return msgspec.json.encode(made).decode()


def read_record(text: str) -> Record:
    """
    Raises:
        ValueError: there is none, it is broken, or of a newer version; the text says what to do.
    """
    if not text:
        raise ValueError(
            "it has no record of whose it is, as older versions wrote none; its data stays, and an admin "
            "with kubectl can copy it or write the annotation homeport.dev/record"
        )
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version > VERSION:
            raise ValueError(
                f"its record has version {version}, and this Homeport reads {VERSION}; adopt it with "
                "the version that made it"
            )
        return msgspec.json.decode(text, type=Record)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"its record (annotation homeport.dev/record) is broken: {error}; correct it with "
            "kubectl annotate"
        ) from error
