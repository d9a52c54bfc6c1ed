"""Addresses of jobs: pages under /trainings/, REST under /api/v1/."""

from django.urls import path

from jobs import api, upload_views, views
from jobs.fleet import urls as fleet
from jobs.services import rest as service_rest
from jobs.services import urls as service_pages
from jobs.team import urls as team_pages

pages = [
    path("trainings/", views.job_list, name="jobs"),
    path("trainings/new/", views.job_new, name="job-new"),
    path("trainings/new/fit/", views.job_fit, name="job-fit"),
    path("trainings/<uuid:pk>/", views.job_detail, name="job"),
    path("trainings/<uuid:pk>/part/<slug:part>/", views.job_fragment, name="job-fragment"),
    path("trainings/<uuid:pk>/stop/", views.job_stop, name="job-stop"),
    path("trainings/<uuid:pk>/delete/", views.job_delete, name="job-delete"),
    path("trainings/<uuid:pk>/again/", views.job_again, name="job-again"),
    path("trainings/<uuid:pk>/log/", views.job_log_download, name="job-log-download"),
    path(
        "trainings/<uuid:pk>/artifacts/<uuid:artifact_id>/",
        views.job_artifact,
        name="job-artifact",
    ),
    path("bundles/", views.bundle_upload, name="bundle-upload"),
    path("uploads/", upload_views.upload_list, name="uploads"),
    path("uploads/<uuid:pk>/delete/", upload_views.upload_delete, name="upload-delete"),
    *service_pages.pages,
    *fleet.pages,
    *team_pages.pages,
]

rest = [
    path("bundles/<uuid:pk>/", api.BundleDetailView.as_view(), name="api-bundle"),
    path("bundles/", api.BundleListView.as_view(), name="api-bundles"),
    path("jobs/", api.JobListView.as_view(), name="api-jobs"),
    path("jobs/preview/", api.JobPreviewView.as_view(), name="api-job-preview"),
    path("jobs/<uuid:pk>/", api.JobDetailView.as_view(), name="api-job"),
    path("jobs/<uuid:pk>/stop/", api.JobStopView.as_view(), name="api-job-stop"),
    path("jobs/<uuid:pk>/manifests/", api.JobManifestsView.as_view(), name="api-job-manifests"),
    path("jobs/<uuid:pk>/events/", api.JobEventsView.as_view(), name="api-job-events"),
    path("jobs/<uuid:pk>/logs/", api.JobLogsView.as_view(), name="api-job-logs"),
    path("jobs/<uuid:pk>/artifacts/", api.JobArtifactsView.as_view(), name="api-job-artifacts"),
    path(
        "jobs/<uuid:pk>/artifacts/<uuid:artifact_id>/",
        api.JobArtifactView.as_view(),
        name="api-job-artifact",
    ),
    *service_rest.urls,
    *fleet.rest,
]
