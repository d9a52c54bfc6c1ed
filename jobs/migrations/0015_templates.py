"""Templates: requests for trainings under a name, of a person or a team."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    # A new table without a constraint on teams, so that what is older can still delete them.
    older_code_may_run = True

    dependencies = [
        ('jobs', '0014_user_secrets'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Template',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('spec', models.JSONField()),
                ('updated_at', models.DateTimeField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.team')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('team', None)), fields=('owner', 'name'), name='one_template_per_name'),
                    models.UniqueConstraint(models.F('team'), models.F('name'), name='one_template_per_name_of_a_team'),
                ],
            },
        ),
    ]
