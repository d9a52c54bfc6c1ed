"""A training may be suspended: a word more for what people want, and for the state that follows."""

from django.db import migrations, models

_STATES = (
    'queued', 'starting', 'running', 'restarting', 'stopping', 'suspended', 'succeeded', 'failed', 'stopped',
)
_DESIRED = ('run', 'suspend', 'stop', 'delete')


def _choices(words):
    return [(word, word) for word in words]


class Migration(migrations.Migration):

    # No column changes: an older version meets the words only where somebody has suspended something.
    older_code_may_run = True

    dependencies = [
        ('jobs', '0011_requests_without_claims'),
    ]

    operations = [
        migrations.AlterField(
            model_name='workload',
            name='desired',
            field=models.CharField(choices=_choices(_DESIRED), default='run', max_length=8),
        ),
        migrations.AlterField(
            model_name='workload',
            name='state',
            field=models.CharField(choices=_choices(_STATES), default='queued', max_length=16),
        ),
    ]
