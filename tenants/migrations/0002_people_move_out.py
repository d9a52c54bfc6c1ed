from django.db import migrations


class Migration(migrations.Migration):

    older_code_may_run = True  # the tables stay as they are: only their application is another one

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='Session'),
                migrations.DeleteModel(name='SignInCount'),
            ],
        ),
    ]
