"""People, teams and namespaces as a Django application."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Brings the filters of templates that say the audit trail in words."""

    name = "tenants"

    def ready(self) -> None:
        from portal.web import jinja
        from tenants.audit import words

        jinja.add_filters(deed=words.deed, detail_lines=words.detail_lines)
