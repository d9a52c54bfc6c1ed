import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


def rename(before, after):
    """The rows that permissions hang on go along. A new database has none yet: they are made afterwards."""

    def run(apps, schema_editor):
        types = apps.get_model('contenttypes', 'ContentType').objects.using(schema_editor.connection.alias)
        types.filter(app_label=before, model__in=['session', 'signincount']).update(app_label=after)

    return run


class Migration(migrations.Migration):

    older_code_may_run = True  # the tables stay as they are, and nothing older asks for content types

    dependencies = [
        ('contenttypes', '0002_remove_content_type_name'),
        ('tenants', '0002_people_move_out'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[
            migrations.CreateModel(
                name='SignInCount',
                fields=[
                    ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                    ('count', models.IntegerField(default=0)),
                    ('since', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ],
                options={
                    'db_table': 'tenants_signincount',
                },
            ),
            migrations.CreateModel(
                name='Session',
                fields=[
                    ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                    ('session_data', models.TextField(verbose_name='session data')),
                    ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                    ('id', models.UUIDField(db_index=True, default=uuid.uuid4, editable=False)),
                    ('user_agent', models.CharField(blank=True, default='', max_length=300)),
                    ('source_address', models.CharField(blank=True, default='', max_length=64)),
                    ('signed_in_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                    ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL)),
                ],
                options={
                    'verbose_name': 'session',
                    'verbose_name_plural': 'sessions',
                    'db_table': 'tenants_session',
                    'abstract': False,
                },
            ),
        ]),
        migrations.RunPython(rename('tenants', 'people'), rename('people', 'tenants')),
    ]
