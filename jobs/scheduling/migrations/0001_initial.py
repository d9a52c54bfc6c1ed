"""The switches of the queue."""
from django.db import migrations, models


class Migration(migrations.Migration):

    older_code_may_run = True  # a new table, of which older code knows nothing
    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Scheduling',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fair_share', models.BooleanField(default=False)),
                ('aging_s', models.IntegerField(default=21600)),
            ],
        ),
    ]
