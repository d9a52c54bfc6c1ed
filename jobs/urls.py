"""Addresses of jobs: pages under /trainings/, REST under /api/v1/."""

from django.urls import path

from jobs import upload_views, views
from jobs.fleet import urls as fleet
from jobs.kinds.training.spec import KEY
from jobs.services import urls as service_pages
from jobs.team import urls as team_pages
from jobs.workloads import api, form_views

OF_TRAININGS = {"kind": KEY}
pages = [
    path("trainings/", views.job_list, name="jobs"),
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
