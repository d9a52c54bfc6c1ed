"""Nodes that admins hold from a time on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    older_code_may_run = True  # it knows nothing of the table, and goes on starting work there

    dependencies = [
        ('scheduling', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='NodeHold',
            fields=[
                ('node', models.CharField(max_length=253, primary_key=True, serialize=False)),
                ('from_at', models.DateTimeField()),
                ('reason', models.CharField(blank=True, default='', max_length=200)),
                ('held_by', models.CharField(max_length=150)),
            ],
            options={
                'ordering': ['from_at', 'node'],
            },
        ),
    ]
