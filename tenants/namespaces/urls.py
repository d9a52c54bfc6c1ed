"""Addresses of the life of namespaces: admin pages, REST verbs."""

from django.urls import path

from tenants.namespaces import api, views
from tenants.namespaces.actions import VERBS

pages = [
    path("admin/namespaces/", views.namespace_list, name="namespaces"),
    path("admin/namespaces/new/", views.namespace_new, name="namespace-new"),
    path("admin/namespaces/<uuid:pk>/", views.namespace_detail, name="namespace"),
    path("admin/namespaces/<uuid:pk>/<slug:verb>/", views.namespace_verb, name="namespace-verb"),
]

rest = [
    path("tenants/", api.NamespaceListView.as_view(), name="api-tenants"),
    *(
        path(
            f"tenants/<uuid:pk>/{verb}/",
            api.NamespaceVerbView.as_view(verb=verb),
            name=f"api-tenant-{verb}",
        )
        for verb in VERBS
    ),
]
