"""One table of workloads, second step: services become rows of it, and requests are kept as one spec."""

from django.db import migrations
from django.db.models import F

BATCH_ROWS = 500
_POLICY = ('success_policy', 'retries', 'deadline_s', 'starting_deadline_s', 'clean_policy', 'ttl_s')
_SPEC = ('topology', 'command', 'source', 'env', 'cluster_flags', 'shm_bytes')
# Keys of the reconciler's notes -> what they are called from now on.
_NOTES = {
    'said': 'event_count',
    'again': 'restart_reason',
    'leaving': 'teardown',
    'leaving_at': 'teardown_at',
    'leaving_why': 'teardown_reason',
    'erased': 'purged',
}
# Column of a workload -> what a service called it.
_COLUMNS = {
    **{
        name: name
        for name in (
            'id', 'kind', 'tenant_id', 'owner_id', 'created_at', 'name', 'image', 'desired', 'stop_requested_by_id',
            'stop_reason', 'state', 'reason_code', 'reason_text', 'reason_next_step', 'not_before', 'admitted_at',
            'steps', 'node_port', 'event_files', 'plan', 'root_uid', 'cleaned_at', 'revision',
        )
    },
    'generation': 'start_count',
    'observed_generation': 'seen_start',
    'queued_at': 'requested_at',
    'started_at': 'ready_at',
    'finished_at': 'ended_at',
}
_EVENT = ('uid', 'at', 'is_warning', 'source', 'subject', 'reason', 'message', 'count')
_REPLICA_STATES = {
    'queued': 'pending',
    'starting': 'starting',
    'running': 'running',
    'stopping': 'running',
    'stopped': 'stopped',
    'failed': 'failed',
}
_LARGEST = 2**31 - 1  # that a column of a whole number holds
_UID_CHARS = 36


def renamed(notes):
    """Notes by their new keys; what nobody knows stays, unless it would now mean something."""
    if not isinstance(notes, dict):
        return notes
    taken = set(_NOTES.values())
    return {_NOTES.get(key, key): value for key, value in notes.items() if key not in taken}


def batches(rows):
    """Lists of the rows; their order is that of their keys."""
    keys = list(rows.order_by('pk').values_list('pk', flat=True))
    for first in range(0, len(keys), BATCH_ROWS):
        yield list(rows.order_by('pk').filter(pk__in=keys[first : first + BATCH_ROWS]))


def move_trainings(apps, using):
    workloads = apps.get_model('jobs', 'Workload').objects.using(using)
    workloads.update(created_at=F('queued_at'), observed_generation=1)
    for rows in batches(workloads.only('notes', *_SPEC, *_POLICY)):
        for row in rows:
            row.spec = {name: getattr(row, name) for name in _SPEC}
            row.spec['run_policy'] = {name: getattr(row, name) for name in _POLICY}
            row.notes = renamed(row.notes)
            row.save(using=using, update_fields=('spec', 'notes'))


def move_services(apps, using):
    Workload, Replica = apps.get_model('jobs', 'Workload'), apps.get_model('jobs', 'Replica')
    for services in batches(apps.get_model('jobs', 'Service').objects.using(using)):
        Workload.objects.using(using).bulk_create(map(workload_of(Workload), services))
        pods = [replica_of(Replica, service) for service in services if service.seen_start > 0]
        Replica.objects.using(using).bulk_create(pods)


def workload_of(Workload):
    def made(service):
        size = {name: getattr(service, name) for name in ('cpu_millicores', 'memory_bytes', 'gpu_count')}
        notes = renamed(service.memo)
        withdrawals = 0
        if isinstance(notes, dict):
            notes.pop('pod_uid', None)  # its replica has it
            withdrawals = notes.pop('withdrawals', 0)
        return Workload(
            **{column: getattr(service, name) for column, name in _COLUMNS.items()},
            replicas={service.kind: {'count': 1, **size}},
            spec={'log_dirs': service.log_dirs} if service.kind == 'tensorboard' else {},
            attempt=attempt_of(service),
            requeued_count=withdrawals if is_count(withdrawals) else 0,
            notes=notes,
            command=[],  # the column is there for one more step
        )

    return made


def replica_of(Replica, service):
    memo = service.memo if isinstance(service.memo, dict) else {}
    uid = memo.get('pod_uid', '')
    return Replica(
        workload_id=service.pk,
        role=service.kind,
        index=0,
        attempt=attempt_of(service),
        pod=service.pod,
        pod_uid=uid if isinstance(uid, str) and len(uid) <= _UID_CHARS else '',
        node=service.node,
        gpus=service.gpus,
        restarts=service.restarts,
        state=_REPLICA_STATES.get(service.state, 'pending'),
    )


def attempt_of(service):
    """Part of the names of its objects, which are there."""
    return max(1, service.seen_start)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def move_events(apps, using):
    WorkloadEvent = apps.get_model('jobs', 'WorkloadEvent')
    for events in batches(apps.get_model('jobs', 'ServiceEvent').objects.using(using)):
        WorkloadEvent.objects.using(using).bulk_create(
            WorkloadEvent(
                workload_id=event.service_id,
                generation=event.start_count,
                **{name: getattr(event, name) for name in _EVENT},
            )
            for event in events
        )


def move(apps, schema_editor):
    using = schema_editor.connection.alias
    move_trainings(apps, using)
    move_services(apps, using)
    move_events(apps, using)


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0005_one_table'),
    ]

    operations = [
        migrations.RunPython(move),
    ]
