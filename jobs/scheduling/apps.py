"""The switches of the queue as a Django application of its own."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Found by Django because it is the only one here."""

    name = "jobs.scheduling"
