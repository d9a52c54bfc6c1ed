"""What a backup says of itself, and why it may not go into a given installation."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from portal.backup import BackupError
from portal.database import schema

FORMAT = 1
_ROUNDS = 200_000  # a tenth of a second; a key may be somebody's short word


@dataclass(frozen=True)
class About:
    """The contents of `backup.json`.

    Attributes:
        version: of the Homeport that made it.
        made_at: ISO 8601.
        vendor: `sqlite` or `postgresql`.
        migrations: those that had run, the last one last.
        fingerprint: of the secret key: `salt` and `hash`, hex.
        has_key: whether the key itself is inside.
        has_store: whether what was uploaded and archived is inside.
        tables: for PostgreSQL: table -> its columns and count of rows.
        sequences: for PostgreSQL: sequence -> the last number that it gave.
        catalog: whether the catalog inside is the `built-in` one or their `own`.
    """

    version: str
    made_at: str
    vendor: str
    migrations: tuple[schema.Key, ...]
    fingerprint: dict[str, str]
    has_key: bool
    has_store: bool
    catalog: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "About":
        """Raises BackupError: made by a version whose format this one does not know."""
        if found.get("format") != FORMAT:
            raise BackupError(
                f"the backup has format {found.get('format')!r}, made by Homeport "
                f"{found.get('version', '?')}; this version reads format {FORMAT} only"
            )
        values = {name: found[name] for name in cls.__dataclass_fields__}
        values["migrations"] = tuple((app, name) for app, name in found["migrations"])
        return cls(**values)

    def is_key(self, key: str) -> bool:
        """Whether this is the secret key that the installation had."""
        made = fingerprint(key, self.fingerprint["salt"])
        return hmac.compare_digest(made["hash"], self.fingerprint["hash"])


def fingerprint(key: str, salt: str = "") -> dict[str, str]:
    """By which a secret key is known again, but cannot be found out."""
    salt = salt or secrets.token_hex(16)
    made = hashlib.pbkdf2_hmac("sha256", key.encode(), bytes.fromhex(salt), _ROUNDS)
    return {"salt": salt, "hash": made.hex()}


@dataclass(frozen=True)
class Target:
    """The installation that a backup is to go into.

    Attributes:
        vendor: of its database.
        known: the migrations that this code has.
        foreign: tables that are not Homeport's.
        people: rows of people.
        holder: the reconciler that is at work; empty: none.
        given_key: HOMEPORT_SECRET_KEY; empty where the key is generated.
        key: the key in use.
        older_keys: those of before that are still read.
        has_bucket: its objects are on an S3 server.
    """

    vendor: str
    known: frozenset[schema.Key]
    foreign: tuple[str, ...]
    people: int
    holder: str
    given_key: str
    key: str
    has_bucket: bool
    older_keys: tuple[str, ...] = ()


def why_not_restore(about: About, target: Target) -> str:
    """Why this backup may not go there, and what to do; empty: it may."""
    newer = tuple(key for key in about.migrations if key not in target.known)
    if about.vendor != target.vendor:
        return (
            f"the backup is of a {about.vendor} database, and DATABASE_URL leads to "
            f"{target.vendor}; restore it where that is the same"
        )
    if newer and all(schema.is_optional(key) for key in newer):
        return (
            "the backup is of an installation with OpenID Connect, whose tables need OIDC_ISSUER "
            "to be set here as well"
        )
    if newer:
        return (
            f"the backup is of a newer version ({about.version}): this one does not know the "
            f"migration {schema.shown(newer)}. Restore it with that version"
        )
    if target.foreign:
        return (
            f"the database holds tables that are not Homeport's ({', '.join(target.foreign[:3])}); "
            "name an empty one"
        )
    if target.people:
        return (
            f"the database has {target.people} people; a backup goes into an empty one only. "
            "Move this database away (or name another by DATABASE_URL), and try again"
        )
    if target.holder:
        return (
            f"a reconciler is at work on this database ({target.holder}); "
            "stop every `manage.py serve`, and try again"
        )
    return _why_not_key(about, target) or _why_not_store(about, target)


def _why_not_key(about: About, target: Target) -> str:
    if any(map(about.is_key, (target.key, *target.older_keys))):
        return ""
    if target.given_key:
        return (
            "HOMEPORT_SECRET_KEY is not the key that the backup was made with; set it to that one"
            + (", or leave it unset and take the key in the backup" if about.has_key else "")
        )
    if not about.has_key:
        return (
            "the backup does not hold the secret key, since HOMEPORT_SECRET_KEY gave it; "
            "set that as it was"
        )
    return ""


def _why_not_store(about: About, target: Target) -> str:
    if about.has_store and target.has_bucket:
        return (
            "the backup holds uploads, logs and artifacts from a folder, and here S3_BUCKET is "
            "set; restore it without S3_BUCKET"
        )
    return ""
