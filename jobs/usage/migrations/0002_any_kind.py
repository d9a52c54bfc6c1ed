from django.db import migrations, models


class Migration(migrations.Migration):

    older_code_may_run = True  # the column stays as it is: which kinds there are is not the database's to know

    dependencies = [
        ('usage', '0001_from_jobs'),
    ]

    operations = [
        migrations.AlterField(
            model_name='usageinterval',
            name='kind',
            field=models.CharField(max_length=16),
        ),
    ]
