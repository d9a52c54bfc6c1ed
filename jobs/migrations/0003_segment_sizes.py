from django.db import migrations, models


class Migration(migrations.Migration):

    older_code_may_run = True  # an index, which nothing older looks at

    dependencies = [
        ('jobs', '0002_initial'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='logsegment',
            index=models.Index(fields=['archive', 'size_bytes'], name='segment_sizes'),
        ),
    ]
