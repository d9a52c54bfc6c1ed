"""Addresses of pages and of REST: of workloads of all kinds, of nodes and queue, of teams."""

from collections.abc import Callable, Iterator

from django.http import HttpResponseBase
from django.urls import URLPattern, path

from jobs import upload_views
from jobs.fleet import urls as fleet
from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.scheduling.views import scheduling
from jobs.secrets import api as secrets_api
from jobs.secrets import views as secrets_views
from jobs.team import urls as team_pages
from jobs.workloads import api, form_views, home, template_views, views
from jobs.workloads.image_api import ImageListView
from jobs.workloads.usage_api import UsageView


def _pages(kind: WorkloadKind) -> Iterator[URLPattern]:
    """The pages of a kind, named after its key: `notebooks`, `notebook`, `notebook-stop`."""
    key, all_of_it = kind.key, f"{kind.pages.slug}s/"
    one = f"{all_of_it}<uuid:pk>/"

    def page(where: str, view: Callable[..., HttpResponseBase], name: str) -> URLPattern:
        return path(where, view, {"kind": kind}, name=name)

    yield page(all_of_it, views.show_list, f"{key}s")
    form = {"kind": key}
    yield path(f"{all_of_it}new/", form_views.workload_new, form, name=f"{key}-new")
    yield path(f"{all_of_it}new/fit/", form_views.workload_fit, form, name=f"{key}-fit")
    yield page(one, views.show, key)
    yield page(f"{one}part/<slug:part>/", views.show_part, f"{key}-fragment")
    yield page(f"{one}stop/", views.stop, f"{key}-stop")
    yield page(f"{one}delete/", views.delete, f"{key}-delete")
    if kind.pages.stop_all is not None:
        yield page(f"{all_of_it}stop/", views.stop_all, f"{key}s-stop")
    if kind.can_restart:
        yield page(f"{one}start/", views.start, f"{key}-start")
    else:
        yield path(f"{one}again/", form_views.workload_again, form, name=f"{key}-again")
    if kind.has_gate:
        yield page(f"{one}open/", views.open_, f"{key}-open")
    if kind.is_archived:
        yield page(f"{one}suspend/", views.suspend, f"{key}-suspend")
        yield page(f"{one}priority/", views.prioritize, f"{key}-priority")
        yield page(f"{one}order/", views.reorder, f"{key}-order")
        yield page(f"{one}deadline/", views.extend, f"{key}-deadline")
        yield page(f"{one}resume/", views.resume, f"{key}-resume")
        yield page(f"{all_of_it}prune/", views.prune, f"{key}s-prune")
        yield page(f"{one}export/", views.export, f"{key}-export")
        yield page(f"{one}log/", views.download_log, f"{key}-log-download")
        file = f"{one}artifacts/<uuid:artifact_id>/"
        yield page(file, views.download_artifact, f"{key}-artifact")


pages = [
    path("", home.home, name="home"),
    path("tenant/part/<slug:part>/", home.tenant_fragment, name="tenant-fragment"),
    *(page for kind in KINDS.values() for page in _pages(kind)),
    path(
        "tensorboards/of/",
        form_views.tensorboard_of,
        {"kind": "tensorboard"},
        name="tensorboard-of",
    ),
    path("bundles/", form_views.bundle_upload, name="bundle-upload"),
    path("secrets/", secrets_views.secret_list, name="secrets"),
    path("secrets/new/", secrets_views.secret_form, name="secret-new"),
    path("secrets/<slug:name>/replace/", secrets_views.secret_form, name="secret"),
    path("secrets/<slug:name>/delete/", secrets_views.secret_delete, name="secret-delete"),
    path("uploads/", upload_views.upload_list, name="uploads"),
    path("uploads/<uuid:pk>/delete/", upload_views.upload_delete, name="upload-delete"),
    path("templates/", template_views.template_list, name="templates"),
    path("templates/<uuid:pk>/rename/", template_views.template_rename, name="template-rename"),
    path("templates/<uuid:pk>/delete/", template_views.template_delete, name="template-delete"),
    *fleet.pages,
    path("admin/scheduling/", scheduling, name="scheduling"),
    *team_pages.pages,
]

rest = [
    *api.router.urls,
    path("usage/", UsageView.as_view(), name="api-usage"),
    path("images/", ImageListView.as_view(), name="api-images"),
    path("secrets/", secrets_api.SecretListView.as_view(), name="api-secrets"),
    path("secrets/<slug:name>/", secrets_api.SecretView.as_view(), name="api-secret"),
    *fleet.rest,
]
