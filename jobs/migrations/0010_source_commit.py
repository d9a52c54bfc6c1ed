"""The commit that a training with code from git takes in all its attempts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # the database itself fills the column of a row that knows nothing of it

    dependencies = [
        ('jobs', '0009_attempts'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='source_commit',
            field=models.CharField(blank=True, db_default='', default='', max_length=64),
        ),
    ]
