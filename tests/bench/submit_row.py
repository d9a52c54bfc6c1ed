"""Row M13 of performance.md: what a training of 100 replicas costs before the cluster hears of it.

Rendered in a thread, as the portal does it. Each document is one call to create it: how many calls a submit
really takes is counted on upstream Kubernetes (docs/scale.md).
"""

import marshal
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bench.results import Result, Sides, at_most

PS, WORKERS = 20, 80
_ROUNDS = 10


def _cost_ms(work: Callable[[], object], rounds: int) -> float:
    """Processor time of one round in a thread of its own."""

    def measured() -> float:
        began = time.thread_time()
        for _ in range(rounds):
            work()
        return (time.thread_time() - began) * 1000 / rounds

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(measured).result()


def _documents(ps: int, workers: int) -> list[dict[str, Any]]:
    from jobs.kinds.training.kind import TRAINING
    from jobs.kinds.training.spec import TrainingSpec
    from jobs.rules.requests import RoleRequest
    from jobs.workloads.preview import preview_documents
    from tenants.models import Tenant

    spec = TrainingSpec(
        name="wide and deep",
        topology="tf-ps",
        image="tensorflow/tensorflow:2.21.0",
        command=("python", "train.py", "--batch", "128"),
        replicas={
            "worker": RoleRequest(workers, 2000, 2**32),
            "ps": RoleRequest(ps, 2000, 2**32),
        },
        env={"SEED": "7"},
    )
    return preview_documents(TRAINING, spec, Tenant(namespace="u-ada-00000001"))


def submit(repeats: int) -> list[Result]:
    """M13; in this process, with settings of its own."""
    with tempfile.TemporaryDirectory(prefix="homeport-bench-") as home:
        os.environ |= {"HOMEPORT_HOME": home, "DJANGO_SETTINGS_MODULE": "portal.settings"}
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)  # it asks which registries its person has a login of
        return _measure(repeats)


def _measure(repeats: int) -> list[Result]:
    import msgspec

    made = _documents(PS, WORKERS)
    flat = marshal.dumps(made)

    def plainly() -> bytes:
        # New dicts of the same content at the speed of C, written as JSON at the speed of C.
        return msgspec.json.encode(marshal.loads(flat))

    cost = Sides()
    for _ in range(repeats):
        ours = _cost_ms(lambda: _documents(PS, WORKERS), _ROUNDS)
        cost.add(ours, _cost_ms(plainly, 20 * _ROUNDS))
    more = len(_documents(PS, WORKERS)) - len(_documents(PS, 2))
    return [
        Result(
            "M13",
            "100 replicas: CPU of render and check, portal / plain dicts and JSON",
            cost.ratio,
            at_most(30),
            sides=f"{cost.words('ms', 'plain')}, both in a thread",
            void=cost.void,
        ),
        Result(
            "M13",
            "100 replicas: CPU of render and check",
            sorted(cost.ours)[len(cost.ours) // 2],
            at_most(60),
            "ms",
        ),
        Result(
            "M13",
            "objects to create that 78 more workers add to a submit",
            more,
            at_most(0),
            "objects",
            f"{len(made)} for {WORKERS} workers and {PS} parameter servers, a call each",
        ),
    ]
