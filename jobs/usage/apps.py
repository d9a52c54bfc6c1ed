"""Usage as a Django application of its own, whose table has the name that it had within `jobs`."""

from django.apps import AppConfig


class UsageConfig(AppConfig):
    """Found by Django because it is the only one here."""

    name = "jobs.usage"
