"""Attempts of trainings become rows; a training waits as `restarting` between two of them."""

import django.db.models.deletion
from django.db import migrations, models

_STATES = ('queued', 'starting', 'running', 'restarting', 'stopping', 'succeeded', 'failed', 'stopped')


class Migration(migrations.Migration):

    # A new table without a constraint on the old ones, so that what is older can still delete trainings.
    older_code_may_run = True

    dependencies = [
        ('jobs', '0008_idempotent_requests'),
    ]

    operations = [
        migrations.AlterField(
            model_name='workload',
            name='state',
            field=models.CharField(choices=[(state, state) for state in _STATES], default='queued', max_length=16),
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('cause', models.CharField(max_length=16)),
                ('admitted_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('reason_code', models.CharField(blank=True, default='', max_length=64)),
                ('reason_text', models.TextField(blank=True, default='')),
                ('exit_code', models.IntegerField(null=True)),
                (
                    'workload',
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name='attempts',
                        to='jobs.workload',
                    ),
                ),
            ],
            options={
                'ordering': ['number'],
                'constraints': [
                    models.UniqueConstraint(models.F('workload'), models.F('number'), name='one_row_per_attempt')
                ],
            },
        ),
    ]
