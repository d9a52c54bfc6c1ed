"""One table of workloads, first step: the training's becomes it, and gets what services have."""

import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.models.deletion import PROTECT

# Constraints of expressions, which SQLite cannot keep while a column of theirs is renamed.
_UNIQUE = (
    ('workloadevent', 'one_row_per_event', ('uid',)),
    ('replica', 'one_row_per_replica', ('role', 'index', 'attempt')),
    ('replicaarchive', 'one_archive', ('role', 'index', 'attempt')),
    ('artifact', 'one_artifact_per_path', ('path',)),
)


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0004_usage_moves_out'),
        ('tenants', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RenameModel(old_name='Job', new_name='Workload'),
        migrations.RenameModel(old_name='JobEvent', new_name='WorkloadEvent'),
        *(migrations.RemoveConstraint(model_name=model, name=name) for model, name, _ in _UNIQUE),
        *(migrations.RenameField(model_name=model, old_name='job', new_name='workload') for model, _, _ in _UNIQUE),
        *(
            migrations.AddConstraint(
                model_name=model,
                constraint=models.UniqueConstraint(*map(models.F, ('workload', *columns)), name=name),
            )
            for model, name, columns in _UNIQUE
        ),
        migrations.AddField(
            model_name='workloadevent',
            name='generation',
            field=models.IntegerField(default=1),
        ),
        migrations.RemoveIndex(model_name='workload', name='jobs_job_tenant__0abe78_idx'),
        migrations.RemoveIndex(model_name='workload', name='jobs_job_state_69e138_idx'),
        migrations.RemoveIndex(model_name='workload', name='jobs_not_cleaned'),
        migrations.AlterField(
            model_name='workload',
            name='tenant',
            field=models.ForeignKey(on_delete=PROTECT, related_name='workloads', to='tenants.tenant'),
        ),
        migrations.AlterField(
            model_name='workload',
            name='owner',
            field=models.ForeignKey(on_delete=PROTECT, related_name='workloads', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RenameField(model_name='workload', old_name='memo', new_name='notes'),
        migrations.AddField(
            model_name='workload',
            name='kind',
            field=models.CharField(default='job', max_length=16),  # all that there are so far
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='workload',
            name='created_at',
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
        migrations.AddField(
            model_name='workload',
            name='spec',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='workload',
            name='generation',
            field=models.IntegerField(default=1),
        ),
        migrations.AddField(
            model_name='workload',
            name='observed_generation',
            field=models.IntegerField(default=0),
        ),
        migrations.AddField(
            model_name='workload',
            name='steps',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='workload',
            name='node_port',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='workload',
            name='event_files',
            field=models.IntegerField(null=True),
        ),
    ]
