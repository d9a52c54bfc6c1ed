"""Addresses of the pages of notebooks and TensorBoards, under /notebooks/ and /tensorboards/."""

from django.urls import URLPattern, path

from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.services import views
from jobs.workloads import form_views


def _pages(kind: str) -> list[URLPattern]:
    """The same pages for each kind, named after it: `notebooks`, `notebook`, `notebook-open`."""
    given = {"kind": kind}
    one = f"{kind}s/<uuid:pk>/"
    return [
        path(f"{kind}s/new/", form_views.workload_new, given, name=f"{kind}-new"),
        path(f"{kind}s/new/fit/", form_views.workload_fit, given, name=f"{kind}-fit"),
        path(f"{kind}s/stop/", views.service_stop_all, given, name=f"{kind}s-stop"),
        path(one, views.service_detail, given, name=kind),
        path(f"{one}part/<slug:part>/", views.service_fragment, given, name=f"{kind}-fragment"),
        path(f"{one}open/", views.service_open, given, name=f"{kind}-open"),
        path(f"{one}start/", views.service_start, given, name=f"{kind}-start"),
        path(f"{one}stop/", views.service_stop, given, name=f"{kind}-stop"),
        path(f"{one}delete/", views.service_delete, given, name=f"{kind}-delete"),
    ]


pages = [
    *_pages(NOTEBOOK.key),
    *_pages(TENSORBOARD.key),
    path(
        "tensorboards/of/",
        form_views.tensorboard_of,
        {"kind": TENSORBOARD.key},
        name="tensorboard-of",
    ),
]
