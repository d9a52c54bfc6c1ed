"""Who asked what the cluster would say, by which it is counted."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # columns that may be null

    dependencies = [
        ('jobs', '0023_gpu_device_counts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='dryrun',
            name='asked_by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='dryrun',
            name='ended_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='dryrun',
            index=models.Index(fields=['asked_by', 'asked_at'], name='dry_runs_of_person'),
        ),
    ]
