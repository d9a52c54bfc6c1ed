"""Ready trainings that need no upload: what the first page offers to try."""

from dataclasses import dataclass, field

from django.utils.translation import gettext_lazy as _

_COUNT = """python -u -c "
import os, time
for step in range(1, 31):
    print('step', step, 'loss', round(2.5 / step, 3))
    time.sleep(1)
open(os.environ['ARTIFACTS_DIR'] + '/report.txt', 'w').write('30 steps done')
"
"""

_MEET = """python -u -c "
import json, os, socket, time
me, cluster = os.environ['JOB_NAME'], json.loads(os.environ['TF_CONFIG'])['cluster']
print('I am', me, os.environ['TASK_INDEX'], 'and the cluster is', cluster)
if me == 'ps':
    listener = socket.create_server(('', 2222))
    while True:
        print('a worker called from', listener.accept()[1][0])
for address in cluster['ps']:
    host, port = address.rsplit(':', 1)
    for attempt in range(30):
        try:
            socket.create_connection((host, int(port)), 5).close()
            print('reached', address)
            break
        except OSError as error:
            print('not yet:', error)
            time.sleep(1)
for step in range(1, 16):
    print('step', step)
    time.sleep(1)
"
"""


@dataclass(frozen=True)
class Example:
    """A filled-in form: `values` are fields of `TrainingForm`."""

    slug: str
    title: object  # a lazy text
    summary: object
    values: dict[str, str] = field(default_factory=dict)


EXAMPLES: tuple[Example, ...] = (
    Example(
        "count",
        _("Count to thirty"),
        _("One replica that prints a line each second and writes a file."),
        {
            "name": "count to thirty",
            "image": "python:3.11-slim",
            "command": _COUNT,
            "replicas.worker.cpu": "500m",
            "replicas.worker.memory": "256Mi",
        },
    ),
    Example(
        "meet",
        _("Workers meet a parameter server"),
        _("Two workers and a parameter server find each other by name, as TensorFlow's do."),
        {
            "name": "meet the parameter server",
            "topology": "tf-ps",
            "image": "python:3.11-slim",
            "command": _MEET,
            "replicas.worker.count": "2",
            "replicas.worker.cpu": "500m",
            "replicas.worker.memory": "256Mi",
            "replicas.ps.count": "1",
            "replicas.ps.cpu": "500m",
            "replicas.ps.memory": "256Mi",
        },
    ),
)


def find_example(slug: str) -> Example | None:
    return next((example for example in EXAMPLES if example.slug == slug), None)
