"""What a training must hold to at the moment it is submitted, beside what its request must."""

from collections.abc import Collection

from django.conf import settings
from django.utils.translation import gettext as _

from jobs.kinds.training.continuing import check_folder
from jobs.kinds.training.source import NO_UPLOAD
from jobs.kinds.training.spec import KEY, TrainingSpec
from jobs.kinds.training.variables import NO_SECRET
from jobs.models import Bundle, UserSecret, Workload
from portal.errors import FieldError, Refused
from tenants.models import Tenant


def check_submit(tenant: Tenant, spec: TrainingSpec) -> None:
    """Holds its upload, secrets and folder, until the transaction ends, for this training.

    Raises:
        Refused: 409, the namespace has as many unfinished trainings as it may have; the folder in which
            it goes on is in use; or the upload or a secret was deleted since the request was checked.
    """
    _check_unfinished(tenant)
    bundle = (spec.source or {}).get("bundle")
    check_secrets(tenant, spec.named_secrets)
    if bundle is None and not spec.log_folder:
        return
    Tenant.objects.select_for_update().only("pk").get(pk=tenant.pk)  # as jobs/uploads.py
    if spec.log_folder:
        check_folder(tenant, spec.log_folder)
    if bundle is not None and not Bundle.objects.filter(tenant=tenant, pk=bundle).exists():
        raise Refused([NO_UPLOAD])


def check_secrets(tenant: Tenant, named: Collection[str]) -> None:
    """Holds secrets for a workload that names them, until the transaction ends.

    Raises:
        Refused: one was deleted since the request was checked.
    """
    if not named:
        return
    Tenant.objects.select_for_update().only("pk").get(pk=tenant.pk)  # as jobs/secrets/actions.py
    found = UserSecret.objects.filter(tenant=tenant, is_deleted=False)
    if gone := set(named).difference(found.values_list("name", flat=True)):
        raise Refused([FieldError(f"secrets.{min(gone)}", "not_found", NO_SECRET)])


def _check_unfinished(tenant: Tenant) -> None:
    most = settings.MAX_UNFINISHED_TRAININGS
    count = Workload.objects.filter(kind=KEY, tenant=tenant).unfinished().count()
    if count >= most:
        text = _(
            "%(count)s trainings of this namespace are queued, running or suspended, and at most %(most)s "
            "may be. Wait until some have ended, or stop those that are not needed."
        )
        text %= {"count": count, "most": most}
        raise Refused(text, "too_many_trainings", 409)
