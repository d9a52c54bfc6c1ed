"""The portal as a Django application: brings its system checks."""

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """Found by Django because it is the only one here."""

    name = "portal"

    def ready(self) -> None:
        from portal import checks  # noqa: F401 (registers itself)
