"""Addresses of people and tenants: sign-in and account pages, REST under /api/v1/."""

from django.urls import path

from tenants import api, views
from tenants.audit import urls as audit
from tenants.namespaces import urls as namespaces
from tenants.people import urls as people
from tenants.quota import views as quota_views

pages = [
    *people.pages,
    *audit.pages,
    *namespaces.pages,
    path("tenant/make/", views.tenant_make, name="tenant-make"),
    path("tenants/<uuid:pk>/quota/", quota_views.tenant_quota, name="tenant-quota"),
]

rest = [
    *people.rest,
    *audit.rest,
    *namespaces.rest,
    path("me/", api.MeView.as_view(), name="api-me"),
    path("tenants/<uuid:pk>/", api.TenantDetailView.as_view(), name="api-tenant"),
]
