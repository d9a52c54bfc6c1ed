import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def rename(before, after):
    """The row that permissions hang on goes along. A new database has none yet: it is made afterwards."""

    def run(apps, schema_editor):
        types = apps.get_model('contenttypes', 'ContentType').objects.using(schema_editor.connection.alias)
        types.filter(app_label=before, model='usageinterval').update(app_label=after)

    return run


class Migration(migrations.Migration):

    older_code_may_run = True  # the table stays as it is, and nothing older asks for its content type

    dependencies = [
        ('contenttypes', '0002_remove_content_type_name'),
        ('jobs', '0004_usage_moves_out'),
        ('tenants', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[
            migrations.CreateModel(
                name='UsageInterval',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('job', 'Job'), ('notebook', 'Notebook'), ('tensorboard', 'Tensorboard')], max_length=16)),
                    ('object_id', models.UUIDField()),
                    ('object_name', models.CharField(max_length=80)),
                    ('pod_uid', models.CharField(max_length=36, unique=True)),
                    ('node', models.CharField(max_length=253)),
                    ('gpu_count', models.IntegerField()),
                    ('cpu_millicores', models.BigIntegerField()),
                    ('memory_bytes', models.BigIntegerField()),
                    ('started_at', models.DateTimeField()),
                    ('ended_at', models.DateTimeField(null=True)),
                    ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='usage', to=settings.AUTH_USER_MODEL)),
                    ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='usage', to='tenants.team')),
                    ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='usage', to='tenants.tenant')),
                ],
                options={
                    'db_table': 'jobs_usageinterval',
                    'indexes': [models.Index(fields=['team', 'ended_at'], name='jobs_usagei_team_id_cd69c8_idx'), models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['pod_uid'], name='usage_open')],
                },
            ),
        ]),
        migrations.RunPython(rename('jobs', 'usage'), rename('usage', 'jobs')),
    ]
