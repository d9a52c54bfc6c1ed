"""Addresses of notebooks and TensorBoards in REST, under /api/v1/."""

from django.urls import path

from jobs.services import api

urls = [
    path("notebooks/", api.NotebookListView.as_view(), name="api-notebooks"),
    path("notebooks/<uuid:pk>/", api.NotebookDetailView.as_view(), name="api-notebook"),
    path("notebooks/<uuid:pk>/start/", api.NotebookStartView.as_view(), name="api-notebook-start"),
    path("notebooks/<uuid:pk>/stop/", api.NotebookStopView.as_view(), name="api-notebook-stop"),
    path("notebooks/<uuid:pk>/open/", api.NotebookOpenView.as_view(), name="api-notebook-open"),
    path(
        "notebooks/<uuid:pk>/events/",
        api.NotebookEventsView.as_view(),
        name="api-notebook-events",
    ),
    path("tensorboards/", api.TensorBoardListView.as_view(), name="api-tensorboards"),
    path("tensorboards/<uuid:pk>/", api.TensorBoardDetailView.as_view(), name="api-tensorboard"),
    path(
        "tensorboards/<uuid:pk>/start/",
        api.TensorBoardStartView.as_view(),
        name="api-tensorboard-start",
    ),
    path(
        "tensorboards/<uuid:pk>/stop/",
        api.TensorBoardStopView.as_view(),
        name="api-tensorboard-stop",
    ),
    path(
        "tensorboards/<uuid:pk>/open/",
        api.TensorBoardOpenView.as_view(),
        name="api-tensorboard-open",
    ),
    path(
        "tensorboards/<uuid:pk>/events/",
        api.TensorBoardEventsView.as_view(),
        name="api-tensorboard-events",
    ),
]
