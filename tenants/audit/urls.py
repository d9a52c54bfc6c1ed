"""Addresses of the audit trail."""

from django.urls import path

from tenants.audit import api, views

pages = [
    path("admin/audit/", views.audit, name="audit"),
    path("admin/audit/csv/", views.audit_csv, name="audit-csv"),
]

rest = [path("audit/", api.AuditListView.as_view(), name="api-audit")]
