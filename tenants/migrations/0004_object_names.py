"""What holds up the removal of a namespace may have a name as long as Kubernetes allows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it reads longer names as well, and writes shorter ones

    dependencies = [
        ('tenants', '0003_weights'),
    ]

    operations = [
        migrations.AlterField(
            model_name='tenantobject',
            name='name',
            field=models.CharField(max_length=253),
        ),
    ]
