"""Requests that may be sent again, and what they created."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    older_code_may_run = True  # a new table, which nothing older looks at

    dependencies = [
        ('jobs', '0007_old_columns_go'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=255)),
                ('request_sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_index=True)),
                ('claim', models.UUIDField()),
                ('claimed_at', models.DateTimeField()),
                ('status', models.IntegerField(null=True)),
                ('created_id', models.UUIDField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.F('user'), models.F('key'), name='one_request_per_key')],
            },
        ),
    ]
