"""Secrets of people: what the cluster has of them, and values on their way there."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # a new table, of which older code knows nothing

    dependencies = [
        ('jobs', '0013_replica_address'),
        ('tenants', '0002_people_move_out'),
    ]

    operations = [
        migrations.CreateModel(
            name='UserSecret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('kind', models.CharField(choices=[('generic', 'Generic'), ('registry', 'Registry')], max_length=8)),
                ('keys', models.JSONField(default=list)),
                ('revision', models.IntegerField(default=1)),
                ('sealed', models.TextField(blank=True, default='')),
                ('revisions', models.JSONField(default=list)),
                ('is_deleted', models.BooleanField(default=False)),
                ('has_work', models.BooleanField(default=True)),
                ('problem', models.TextField(blank=True, default='')),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to='tenants.tenant')),
            ],
            options={
                'ordering': ['name'],
                'indexes': [models.Index(condition=models.Q(('has_work', True)), fields=['id'], name='secrets_with_work')],
                'constraints': [models.UniqueConstraint(models.F('tenant'), models.F('name'), name='one_secret_per_name')],
            },
        ),
    ]
