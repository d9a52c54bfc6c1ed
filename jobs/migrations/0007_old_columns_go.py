"""One table of workloads, last step: what the rows say elsewhere by now goes."""

from django.db import migrations, models
from django.db.models import functions

_GONE = (
    'topology', 'command', 'source', 'env', 'cluster_flags', 'success_policy', 'priority', 'retries', 'deadline_s',
    'starting_deadline_s', 'clean_policy', 'ttl_s', 'shm_bytes',
)


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0006_move_services'),
    ]

    operations = [
        migrations.DeleteModel(name='ServiceEvent'),
        migrations.DeleteModel(name='Service'),
        *(migrations.RemoveField(model_name='workload', name=name) for name in _GONE),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(fields=['tenant', 'kind', '-queued_at'], name='workloads_of_tenant'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(fields=['kind', '-queued_at'], name='workloads_of_kind'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(fields=['state', 'queued_at'], name='workloads_by_state'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(
                condition=models.Q(
                    ('cleaned_at__isnull', True),
                    ('desired', 'delete'),
                    ('observed_generation', functions.NullIf('observed_generation', 'generation')),
                    _connector='OR',
                ),
                fields=['id'],
                name='workloads_with_work',
            ),
        ),
        # Nothing that Django would do by itself brings back what went: the way back is a copy.
        migrations.RunPython(migrations.RunPython.noop),
    ]
