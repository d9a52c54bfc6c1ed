"""Where each workload stands in the queue, when it starts, and by which rules."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of the table

    dependencies = [
        ('jobs', '0019_preemption'),
    ]

    operations = [
        migrations.CreateModel(
            name='QueuePlace',
            fields=[
                ('workload', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='place', serialize=False, to='jobs.workload')),
                ('position', models.IntegerField()),
                ('position_all', models.IntegerField()),
                ('starts_at', models.DateTimeField(null=True)),
                ('basis', models.CharField(max_length=16)),
                ('cause', models.UUIDField(null=True)),
                ('rules', models.JSONField()),
            ],
        ),
    ]
