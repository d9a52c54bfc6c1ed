"""People as a Django application of its own, whose tables have the names that they had within `tenants`."""

from django.apps import AppConfig


class PeopleConfig(AppConfig):
    """Found by Django because it is the only one here."""

    name = "tenants.people"
