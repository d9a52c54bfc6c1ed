"""Weights of teams and namespaces, and which quotas are by weight."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # the database itself fills the columns of rows that know nothing of them

    dependencies = [
        ('tenants', '0002_people_move_out'),
    ]

    operations = [
        migrations.AddField(
            model_name='team',
            name='weight',
            field=models.SmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='tenant',
            name='quota_by_weight',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='tenant',
            name='weight',
            field=models.SmallIntegerField(db_default=1, default=1),
        ),
    ]
