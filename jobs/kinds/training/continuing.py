"""Going on from a finished training in its log folder: which one may be named, and what is taken over."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from msgspec.structs import replace
from rest_framework import serializers

from jobs.kinds.spec import spec_of
from jobs.kinds.training.manifests import log_dir
from jobs.kinds.training.spec import KEY, TrainingSpec
from jobs.models import Workload
from jobs.rules.states import Desired
from portal.errors import FieldError, Refused
from portal.web.fields import Omissible
from tenants.models import Tenant

FIELD = "continue_from"


@extend_schema_field(serializers.UUIDField())
class FinishedTraining(Omissible):
    """The id of a training of the namespace that has ended; its value is the row, or the id of a spec."""

    default_error_messages = {
        "not_found": _("There is no such training in your namespace."),
        "not_finished": _("It is {state}. Only a training that has ended can be continued."),
    }

    def to_internal_value(self, data: Any) -> Workload:
        try:
            rows = Workload.objects.filter(kind=KEY, tenant=self.context["tenant"], pk=UUID(data))
            found: Workload | None = rows.exclude(desired=Desired.DELETE).first()
        except (AttributeError, TypeError, ValueError):
            found = None
        if found is None:
            self.fail("not_found")
        if not found.is_final:
            self.fail("not_finished", state=found.state)
        return found

    def to_representation(self, value: str) -> str:
        return value


def takes_over(body: Mapping[str, Any]) -> bool:
    """Whether what a body does not say is that of the training that it continues: it is no whole request."""
    return bool(body.get(FIELD)) and not body.keys() >= {"command", "image"}


def taken_over(old: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """What a body asks for that `takes_over` all that it does not say.

    Of replicas that is each part of a role, of variables and secrets each name. An empty object and null say that
    there are none. Another topology has no roles but those that the body says.

    Args:
        old: the body of the training that it continues, with every field.
    """
    found = {**old, **body}
    for name in ("env", "secrets"):
        found[name] = _laid_over(old[name], found[name]) if found[name] else {}
    roles, said = old["replicas"], found["replicas"]
    if said and isinstance(said, Mapping):
        named = {role: _laid_over(roles.get(role), asked) for role, asked in said.items()}
        is_same = found["topology"] == old["topology"]
        found["replicas"] = {**roles, **named} if is_same else named
    return found


def _laid_over(old: Any, said: Any) -> Any:
    both = isinstance(old, Mapping) and isinstance(said, Mapping)
    return {**old, **said} if both else said


def continued(spec: TrainingSpec, old: Workload) -> TrainingSpec:
    """The request in the log folder of the old one; where it asks for the same code, of the same commit."""
    source = spec.source
    if source and old.source_commit and source == spec_of(old, TrainingSpec).source:
        source = {**source, "ref": old.source_commit}
    return replace(spec, continue_from=str(old.pk), log_folder=log_dir(old), source=source)


def check_folder(tenant: Tenant, folder: str) -> None:
    """Whether nobody writes to it; called with the namespace's row locked.

    Raises:
        Refused: 409, another training that has not ended has it as its LOG_DIR.
    """
    same = Workload.objects.filter(kind=KEY, tenant=tenant, spec__log_folder=folder).unfinished()
    name = same.values_list("name", flat=True).first()
    if name is not None:
        text = gettext(
            "“%(name)s” already continues in this folder. Wait until it has ended, or stop it."
        )
        error = FieldError(FIELD, "folder_in_use", text % {"name": name})
        raise Refused([error], status=409)
