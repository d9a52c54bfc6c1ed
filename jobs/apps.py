"""Trainings, notebooks and TensorBoards as a Django application."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

# Written out, for every page asks it: to compile it costs four times what the database does.
_LEASE = "SELECT * FROM jobs_reconcilerlease WHERE id = 1"


class JobsConfig(AppConfig):
    """Tells the pages, which know no app, what kinds there are and how the reconciler's lease is read."""

    name = "jobs"

    def ready(self) -> None:
        from jobs.fleet.split_capacity import read_capacity
        from jobs.kinds.registry import KINDS, SERVED_TITLE
        from jobs.models import ReconcilerLease
        from portal.web import jinja, layout, reconciler
        from tenants import usage
        from tenants.audit import describe
        from tenants.quota import weights

        items = [
            layout.NavItem(
                f"{kind.key}s",
                kind.pages.title,
                kind.icon,
                (
                    f"/{kind.pages.slug}s/",
                    *(["/uploads/", "/templates/"] if kind.takes_code else []),
                ),
            )
            for kind in KINDS.values()
        ]
        layout.add_lists([*items, layout.NavItem("secrets", _("Secrets"), "key", "/secrets/")])
        jinja.add_filters(workload_kind=lambda key: KINDS[key])
        served = {kind.key: kind.noun for kind in KINDS.values() if kind.record_kind == "service"}
        describe.add_kind("service", served)
        usage.TITLES["nodeports"] = SERVED_TITLE
        reconciler.read_leases_by(lambda: next(iter(ReconcilerLease.objects.raw(_LEASE)), None))
        weights.read_capacity_by(read_capacity)
