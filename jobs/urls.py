"""Addresses of pages and of REST: of workloads of all kinds, of nodes and queue, of teams."""

from django.urls import URLPattern, path

from jobs import upload_views, views
from jobs.fleet import urls as fleet
from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.kinds.training.spec import KEY
from jobs.services import urls as service_pages
from jobs.team import urls as team_pages
from jobs.workloads import api, form_views, home
from jobs.workloads import views as workloads


def _pages(kind: WorkloadKind) -> list[URLPattern]:
    """The same pages for each kind, named after its key: `jobs`, `job`, `job-new`."""
    given, base = {"kind": kind}, f"{kind.pages.slug}s/"
    return [path(base, workloads.show_list, given, name=f"{kind.key}s")]


OF_TRAININGS = {"kind": KEY}
pages = [
    path("", home.home, name="home"),
    path("tenant/part/<slug:part>/", home.tenant_fragment, name="tenant-fragment"),
    *(page for kind in KINDS.values() for page in _pages(kind)),
    path("trainings/new/", form_views.workload_new, OF_TRAININGS, name="job-new"),
    path("trainings/new/fit/", form_views.workload_fit, OF_TRAININGS, name="job-fit"),
    path("trainings/<uuid:pk>/", views.job_detail, name="job"),
    path("trainings/<uuid:pk>/part/<slug:part>/", views.job_fragment, name="job-fragment"),
    path("trainings/<uuid:pk>/stop/", views.job_stop, name="job-stop"),
    path("trainings/<uuid:pk>/delete/", views.job_delete, name="job-delete"),
    path("trainings/<uuid:pk>/again/", form_views.workload_again, OF_TRAININGS, name="job-again"),
    path("trainings/<uuid:pk>/log/", views.job_log_download, name="job-log-download"),
    path(
        "trainings/<uuid:pk>/artifacts/<uuid:artifact_id>/",
        views.job_artifact,
        name="job-artifact",
    ),
    path("bundles/", form_views.bundle_upload, name="bundle-upload"),
    path("uploads/", upload_views.upload_list, name="uploads"),
    path("uploads/<uuid:pk>/delete/", upload_views.upload_delete, name="upload-delete"),
    *service_pages.pages,
    *fleet.pages,
    *team_pages.pages,
]

rest = [*api.router.urls, *fleet.rest]
