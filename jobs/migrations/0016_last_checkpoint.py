"""The newest checkpoint that a replica saw at its end."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # the database itself fills the columns of a row that knows nothing of them

    dependencies = [
        ('jobs', '0015_templates'),
    ]

    operations = [
        migrations.AddField(
            model_name='replicaarchive',
            name='checkpoint',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
        migrations.AddField(
            model_name='replicaarchive',
            name='checkpoint_at',
            field=models.DateTimeField(null=True),
        ),
    ]
