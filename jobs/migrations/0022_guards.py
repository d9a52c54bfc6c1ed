"""The few rows by which the guards of the queue go are found by indexes, and an admin may use a node again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of the column, and needs no index

    dependencies = [
        ('jobs', '0021_preempted_why'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='used_again_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='replica',
            index=models.Index(condition=models.Q(('reason_code__in', ['disrupted', 'evicted_memory', 'evicted_pids', 'evicted_retrying', 'node_full', 'node_lost'])), fields=['finished_at'], name='replicas_lost'),
        ),
        migrations.AddIndex(
            model_name='workloadevent',
            index=models.Index(condition=models.Q(('reason', 'Failed')), fields=['at'], name='events_failed'),
        ),
    ]
