from django.db import migrations


class Migration(migrations.Migration):

    older_code_may_run = True  # the table stays as it is: only its application is another one

    dependencies = [
        ('jobs', '0003_segment_sizes'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name='UsageInterval')],
        ),
    ]
