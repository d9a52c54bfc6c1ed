"""Work of low priority that is stopped for others, the nodes that are theirs then, and an own order of the queue."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of these, and stops nothing for others

    dependencies = [
        ('jobs', '0018_node_reservations'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='preempted_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='workload',
            name='preempted_for',
            field=models.CharField(blank=True, db_default='', default='', max_length=150),
        ),
        migrations.AddField(
            model_name='workload',
            name='stops_from',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='workload',
            name='rank',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name='NodeClaim',
            fields=[
                ('workload', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='claim', serialize=False, to='jobs.workload')),
                ('room', models.JSONField()),
                ('until', models.DateTimeField()),
            ],
        ),
    ]
