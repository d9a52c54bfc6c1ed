"""Room that is kept for what waits, and when what is admitted gives its room back at the latest."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of the table, and leaves the column null

    dependencies = [
        ('jobs', '0017_dry_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='ends_by',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(fields=['admitted_at'], name='workloads_by_admission'),
        ),
        migrations.CreateModel(
            name='NodeReservation',
            fields=[
                ('workload', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='reservation', serialize=False, to='jobs.workload')),
                ('room', models.JSONField()),
                ('starts_at', models.DateTimeField(null=True)),
            ],
        ),
    ]
