"""Trainings, notebooks and TensorBoards as a Django application."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Tells the pages, which know no app, what kinds there are and how the reconciler's lease is read."""

    name = "jobs"

    def ready(self) -> None:
        from jobs.kinds.registry import KINDS
        from jobs.models import ReconcilerLease
        from portal.web import jinja, layout, reconciler

        layout.add_lists(
            layout.NavItem(
                f"{kind.key}s",
                kind.pages.title,
                kind.icon,
                (f"/{kind.pages.slug}s/", *(["/uploads/"] if kind.takes_code else [])),
            )
            for kind in KINDS.values()
        )
        jinja.add_filters(workload_kind=lambda key: KINDS[key])
        reconciler.read_leases_by(lambda: ReconcilerLease.objects.filter(pk=1).first())
