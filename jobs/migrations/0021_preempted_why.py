"""Why work of low priority is stopped where that is for nobody who waits."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of the column

    dependencies = [
        ('jobs', '0020_queue_places'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='preempted_why',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
    ]
