"""Replicas that a node's broken GPUs refused are among those by which the guards of the queue go."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # without the index it is slower there, and finds the same

    dependencies = [
        ('jobs', '0022_guards'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='replica',
            name='replicas_lost',
        ),
        migrations.AddIndex(
            model_name='replica',
            index=models.Index(condition=models.Q(('reason_code__in', ['disrupted', 'evicted_memory', 'evicted_pids', 'evicted_retrying', 'gpu_device', 'node_full', 'node_lost'])), fields=['finished_at'], name='replicas_lost'),
        ),
    ]
