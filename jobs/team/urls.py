"""Addresses of the pages of leads, under /team/."""

from django.urls import path

from jobs.team import views

pages = [
    path("team/", views.team, name="lead-team"),
    path("team/part/<slug:part>/", views.team_fragment, name="lead-fragment"),
    path("team/gpu-hours.csv", views.team_hours, name="lead-hours"),
    path("team/stop/<uuid:pk>/", views.team_stop, name="lead-stop"),
]
