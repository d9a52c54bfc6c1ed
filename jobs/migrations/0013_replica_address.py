"""The address at which the other replicas of a training find one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # the database itself fills the column of a row that knows nothing of it

    dependencies = [
        ('jobs', '0012_suspended'),
    ]

    operations = [
        migrations.AddField(
            model_name='replica',
            name='address',
            field=models.CharField(blank=True, db_default='', default='', max_length=45),
        ),
    ]
