"""Addresses of people and tenants: sign-in and account pages, REST under /api/v1/."""

from django.urls import path

from tenants import api, quota_views, views

pages = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("account/", views.account, name="account"),
    path("account/tokens/<uuid:pk>/revoke/", views.token_revoke, name="token-revoke"),
    path("tenant/make/", views.tenant_make, name="tenant-make"),
    path("tenants/<uuid:pk>/quota/", quota_views.tenant_quota, name="tenant-quota"),
]

rest = [
    path("auth/token/", api.TokenView.as_view(), name="api-token"),
    path("me/", api.MeView.as_view(), name="api-me"),
    path("tenants/", api.TenantListView.as_view(), name="api-tenants"),
    path("tenants/<uuid:pk>/", api.TenantDetailView.as_view(), name="api-tenant"),
]
