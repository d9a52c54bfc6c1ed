"""People, teams and namespaces as a Django application."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Brings the filters of templates that say the audit trail in words."""

    name = "tenants"

    def ready(self) -> None:
        from portal.web import jinja
        from tenants.audit import describe

        jinja.add_filters(describe=describe.describe, unsaid_lines=describe.unsaid_lines)
