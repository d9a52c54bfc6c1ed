"""A repeated request is found by what it did: nothing is claimed beforehand."""

from django.db import migrations, models


def forget_unanswered(apps, schema_editor):
    """Of a request that was never answered nothing was done; who asked sends it again as a new one."""
    rows = apps.get_model('jobs', 'IdempotentRequest').objects.using(schema_editor.connection.alias)
    rows.filter(status=None).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0010_source_commit'),
    ]

    operations = [
        migrations.RunPython(forget_unanswered, migrations.RunPython.noop),
        migrations.RemoveField(model_name='idempotentrequest', name='claim'),
        migrations.RemoveField(model_name='idempotentrequest', name='claimed_at'),
        migrations.AlterField(model_name='idempotentrequest', name='status', field=models.IntegerField()),
        migrations.AlterField(model_name='idempotentrequest', name='created_id', field=models.UUIDField()),
    ]
