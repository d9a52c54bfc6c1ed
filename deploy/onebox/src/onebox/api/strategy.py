"""What is particular to one kind: its defaults, its rules, what an update may change.

`registry.Api` runs every write through the same steps and asks the kind's Strategy at each;
the base class is what holds for a kind without rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from onebox.api.resources import Obj
from onebox.api.status import Cause

if TYPE_CHECKING:
    from onebox.api.registry import Api


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write is to be done.

    Attributes:
        dry_run: do everything but keep the result.
        field_validation: "Ignore", "Warn" or "Strict" towards fields that the kind does not have.
        warnings: sentences for the client are appended here.
        user: who writes, for sentences and events.
        manager: name under which the fields that are set become owned.
        force: a server-side apply takes over what others own.
        is_internal: a controller writes, whose mistakes are ours.
        duplicates: paths of fields that the client has sent twice.
    """

    dry_run: bool = False
    field_validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)
    user: str = "system:onebox"
    manager: str = "kube-controller-manager"
    force: bool = False
    is_internal: bool = False
    duplicates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a strategy may look at besides the object.

    Attributes:
        is_applied: a server-side apply has already written down who owns which field.
        is_patch: the object is what a patch has made of the stored one.
    """

    api: Api
    now: datetime
    options: WriteOptions
    is_applied: bool = False
    is_patch: bool = False


class Strategy:
    """The rules of one kind; all methods may change the new object in place, never the old one."""

    name_rule: Callable[[str], list[str]] | None = None
    """Gives what is wrong with a name; None for the common rule (DNS-1123 subdomain)."""

    allow_unconditional_update = True
    """False where upstream refuses a PUT without resourceVersion."""

    checks_whole_on_update = True
    """False where `validate_update` looks at all that upstream looks at then."""

    checks_change_first = False
    """True where upstream names what may not change before what is wrong in itself."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Set what only the server may set, before validation."""

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Carry over what an update cannot change silently, before validation."""

    def validate(self, obj: Obj) -> list[Cause]:
        """Name everything that is wrong with the object itself."""
        return []

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Name every change that is not allowed; `validate(new)` is called besides, where asked for."""
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        """Name everything that is wrong with a new status."""
        return []

    def warnings(self, obj: Obj) -> list[str]:
        """Give sentences that the client should read though the object is accepted."""
        return []
