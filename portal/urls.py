"""All HTTP addresses: pages, REST, the pods' door."""

from django.urls import include, path, re_path

import jobs.pod_api.artifacts
import jobs.pod_api.gate
import jobs.pod_api.hosts
import jobs.pod_api.logs
import jobs.pod_api.runner
import jobs.pod_api.usage
import jobs.urls
import tenants.urls
from portal.server import health
from portal.web import errors
from portal.web.openapi import OpenApiView

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("status", health.status, name="status"),
    *tenants.urls.pages,
    *jobs.urls.pages,
    path("api/v1/schema/", OpenApiView.as_view(), name="api-schema"),
    path("api/v1/", include([*tenants.urls.rest, *jobs.urls.rest])),
    re_path(r"^api/.*", errors.api_not_found),
    path(
        "internal/v1/",
        include(
            [
                *jobs.pod_api.runner.internal_urls,
                *jobs.pod_api.logs.internal_urls,
                *jobs.pod_api.artifacts.internal_urls,
                *jobs.pod_api.hosts.internal_urls,
                *jobs.pod_api.gate.internal_urls,
                *jobs.pod_api.usage.internal_urls,
            ]
        ),
    ),
]

handler400 = "portal.web.errors.bad_request"
handler403 = "portal.web.errors.forbidden"
handler404 = "portal.web.errors.not_found"
handler500 = "portal.web.errors.server_error"
