"""Questions to the cluster: what it would say to a request."""

import django.utils.timezone
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # a new table, of which older code knows nothing

    dependencies = [
        ('jobs', '0016_last_checkpoint'),
    ]

    operations = [
        migrations.CreateModel(
            name='DryRun',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('documents', models.JSONField()),
                ('answer', models.JSONField(null=True)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
