"""What replicas really use: a summary of each, and its minutes by the hour."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # new tables, of which older code knows nothing

    dependencies = [
        ('jobs', '0017_dry_runs'),
        ('usage', '0002_any_kind'),
    ]

    operations = [
        migrations.CreateModel(
            name='ReplicaUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(max_length=16)),
                ('index', models.IntegerField()),
                ('method', models.CharField(max_length=16)),
                ('attempt', models.IntegerField(default=0)),
                ('gpu_note', models.CharField(blank=True, default='', max_length=32)),
                ('problem', models.CharField(blank=True, default='', max_length=200)),
                ('told_at', models.DateTimeField(db_index=True)),
                ('last_at', models.BigIntegerField(default=0)),
                ('latest', models.JSONField(default=dict)),
                ('totals', models.JSONField(default=dict)),
                ('low', models.JSONField(default=dict)),
                ('low_since', models.BigIntegerField(null=True)),
                ('minutes', models.IntegerField(default=0)),
                ('cpu_m_sum', models.BigIntegerField(default=0)),
                ('cpu_m_peak', models.BigIntegerField(default=0)),
                ('memory_mib_sum', models.BigIntegerField(default=0)),
                ('memory_mib_peak', models.BigIntegerField(default=0)),
                ('gpu_minutes', models.IntegerField(default=0)),
                ('gpu_percent_sum', models.BigIntegerField(default=0)),
                ('gpu_percent_peak', models.IntegerField(default=0)),
                ('gpu_memory_mib_sum', models.BigIntegerField(default=0)),
                ('gpu_memory_mib_peak', models.BigIntegerField(default=0)),
                ('workload', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='measured', to='jobs.workload')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('low_since__isnull', False)), fields=['low_since'], name='usage_low')],
                'constraints': [models.UniqueConstraint(models.F('workload'), models.F('role'), models.F('index'), name='one_use_per_replica')],
            },
        ),
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(max_length=16)),
                ('index', models.IntegerField()),
                ('hour', models.DateTimeField(db_index=True)),
                ('packed', models.BinaryField()),
                ('workload', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.workload')),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.F('workload'), models.F('role'), models.F('index'), models.F('hour'), name='one_row_per_hour')],
            },
        ),
    ]
