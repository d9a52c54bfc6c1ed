"""What the portal keeps for itself: what each migration said of older code."""

from django.db import models


class MigrationNote(models.Model):
    """Of a migration that ran here, for code that does not know it."""

    app = models.CharField(max_length=100)
    name = models.CharField(max_length=255)
    older_code_may_run = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["app", "name"], name="one_note_per_migration")
        ]

    def __str__(self) -> str:
        return f"{self.app}.{self.name}"
