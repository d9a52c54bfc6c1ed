"""Addresses of the nodes, the queue and the health page."""

from django.urls import path

from jobs.fleet import api, hold_api, hold_views, views

pages = [
    path("nodes/", views.nodes, name="nodes"),
    path("admin/nodes/use-again/", views.node_use_again, name="node-use-again"),
    path("nodes/hold/", hold_views.hold, name="nodes-hold"),
    path("nodes/release/", hold_views.release, name="nodes-release"),
    path("queue/", views.queue, name="queue"),
    path("admin/health/", views.health, name="health"),
]

rest = [
    path("nodes/", api.NodeListView.as_view(), name="api-nodes"),
    path("holds/", hold_api.HoldListView.as_view(), name="api-holds"),
    path("holds/release/", hold_api.ReleaseView.as_view(), name="api-holds-release"),
    path("queue/", api.QueueView.as_view(), name="api-queue"),
    path("doctor/", api.DoctorView.as_view(), name="api-doctor"),
]
