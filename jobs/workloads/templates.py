"""Templates of trainings: who sees them, and everything that changes them on somebody's behalf."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import limits
from jobs.kinds.registry import KINDS
from jobs.kinds.training.document import UPLOAD_MISSING, as_typed, with_stand_ins
from jobs.models import Template
from portal.errors import FieldError, Refused
from portal.web.fields import NAME, Name
from tenants import policy
from tenants.audit.record import record
from tenants.models import Team, Tenant, User

MOST = 100  # of one person, those that are published included
_KIND = next(kind for kind in KINDS.values() if kind.form.has_templates)


def visible_to(user: User) -> QuerySet[Template]:
    """One's own, then those of teams, by name."""
    rows = Template.objects.visible_to(user).select_related("owner", "team")
    return rows.order_by(F("team__name").asc(nulls_first=True), "name", "pk")


def teams_of(user: User) -> QuerySet[Team]:
    """Those to which somebody may publish."""
    teams: QuerySet[Team] = Team.objects.filter(policy.teams(user, "publish")).order_by("name")
    return teams


def _require(by: User, template: Template) -> None:
    policy.require(by, "publish" if template.team_id else "keep", template)


def save(
    *,
    by: User,
    replaced: Template | None = None,
    name: str,
    team: Team | None,
    body: Mapping[str, Any] | None,
) -> Template:
    """Keeps a body under a name; an upload in it is left out, to be made when it is used.

    Args:
        replaced: which it takes the place of; None: it is new.
        team: whose it is; None: the person's own.
        body: of REST, where name, command and upload may be missing; None: that of the one replaced.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: the body, at `spec.FIELD`; the name is taken; the person has 100.
    """
    owner = replaced.owner if replaced else by
    for each in (replaced, Template(owner=owner, team=team)):
        if each is not None:
            _require(by, each)
    limits.check_pace(by)
    if not NAME.fullmatch(name):
        text = str(Name.default_error_messages["invalid_name"])
        raise Refused([FieldError("name", "invalid_name", text)])
    values: dict[str, Any] = {"name": name, "team": team, "updated_at": timezone.now()}
    if body is not None:
        values["spec"] = _checked(by, body)
    if replaced is None and Template.objects.filter(owner=by).count() >= MOST:
        text = _("You have %(most)s templates. Delete one first.") % {"most": MOST}
        raise Refused(text, "too_many_templates", 409)
    try:
        with transaction.atomic():
            if replaced:
                pk = replaced.pk
                Template.objects.filter(pk=pk).update(**values)
            else:
                pk = Template.objects.create(owner=owner, **values).pk
            saved = get_object_or_404(visible_to(by), pk=pk)
            record(by=by, verb="change" if replaced else "create", target=saved)
    except IntegrityError as error:
        text = _("There is a template of this name already. Choose another one.")
        raise Refused([FieldError("name", "name_taken", text)]) from error
    return saved


def _checked(by: User, body: Mapping[str, Any]) -> dict[str, Any]:
    source = body.get("source")
    has_upload = isinstance(source, Mapping) and "bundle" in source
    typed = {**body, "source": UPLOAD_MISSING} if has_upload else body
    try:
        spec = _KIND.read(with_stand_ins(typed), tenant=Tenant.objects.own_of(by), user=by)
    except Refused as refusal:
        errors = [FieldError(f"spec.{e.field}", e.code, e.text) for e in refusal.errors]
        raise Refused(errors, status=refusal.status) from refusal
    return as_typed(spec, typed)  # type: ignore[arg-type]  # of a training


@transaction.atomic
def delete(*, by: User, template: Template) -> None:
    """
    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    _require(by, template)
    record(by=by, verb="delete", target=template)
    Template.objects.filter(pk=template.pk).delete()
