"""All HTTP addresses: pages, REST, the pods' door."""

from django.urls import include, path, re_path

import jobs.internal
import jobs.services.gate_door
import jobs.urls
import tenants.urls
from portal import views
from portal.web.openapi import OpenApiView

urlpatterns = [
    path("", views.home, name="home"),
    path("healthz", views.healthz, name="healthz"),
    path("livez", views.livez, name="livez"),
    path("readyz", views.readyz, name="readyz"),
    path("status", views.status, name="status"),
    path("tenant/part/<slug:part>/", views.tenant_fragment, name="tenant-fragment"),
    *tenants.urls.pages,
    *jobs.urls.pages,
    path("api/v1/schema/", OpenApiView.as_view(), name="api-schema"),
    path("api/v1/", include([*tenants.urls.rest, *jobs.urls.rest])),
    re_path(r"^api/.*", views.api_not_found),
    path(
        "internal/v1/",
        include([*jobs.internal.internal_urls, *jobs.services.gate_door.internal_urls]),
    ),
]

handler400 = "portal.views.bad_request"
handler403 = "portal.views.forbidden"
handler404 = "portal.views.not_found"
handler500 = "portal.views.server_error"
