"""What the reconciler that is at work knows of the fleet, for Prometheus, worked out when it is asked.

It reads what the reconciler holds anyway, on the event loop: no question to the database and none to
the cluster. Where no reconciler is at work these metrics are absent, so that nothing is told twice.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.engine.admission import AdmissionPass
from jobs.engine.capacity import node_ports
from jobs.engine.controller import Controller
from jobs.engine.health import HealthReporter
from jobs.engine.nodes import NodesPass
from portal.cluster.cache import ClusterCache
from portal.metrics import REGISTRY
from tenants.quota.rules import MOST
from tenants.reconcile.controller import TenantController

Labels = tuple[str, ...]
# Name -> its text and its labels.
GAUGES: Mapping[str, tuple[str, Labels]] = {
    "homeport_reconciler_epoch": ("Which holder of the lease this is.", ()),
    "homeport_reconciler_lag_seconds": (
        "The longest that a change in the cluster waited in the last minute.",
        (),
    ),
    "homeport_watch_heard_timestamp_seconds": (
        "When the watch of a kind last heard of the cluster.",
        ("kind",),
    ),
    "homeport_jobs": (
        "Workloads that have not ended; the topology of a notebook is notebook.",
        ("state", "topology"),
    ),
    "homeport_queue_oldest_seconds": ("How long the first of the queue has waited; 0: none.", ()),
    "homeport_gpus": ("GPUs: used, free, or of nodes that take no pods.", ("state",)),
    "homeport_tenants": ("Namespaces of people.", ("state",)),
    "homeport_nodeports": (
        "NodePorts that Homeport holds, and what its share leaves of 2768; others may hold some.",
        ("state",),
    ),
    "homeport_database_bytes": ("Size of the database.", ()),
    "homeport_backup_timestamp_seconds": ("When the last backup was whole; 0: there is none.", ()),
}


@dataclass(frozen=True)
class Fleet:
    """What a reconciler at work holds."""

    epoch: int
    cache: ClusterCache
    workloads: Controller
    admission: AdmissionPass
    nodes: NodesPass
    tenants: TenantController
    health: HealthReporter
    began_at: float = field(default_factory=time.monotonic)

    def numbers(self) -> dict[str, Mapping[Labels, float]]:
        ahead_s = time.time() - time.monotonic()
        used = node_ports(self.cache.services.watch.items.values())
        size_bytes, backup_at = self.health.database_bytes, self.health.backup_at
        return {
            "homeport_reconciler_epoch": {(): self.epoch},
            "homeport_reconciler_lag_seconds": {(): self.health.ticks.report()["lag_s"]},
            # One that has heard nothing yet is counted from the start, or nobody would hear of it.
            "homeport_watch_heard_timestamp_seconds": {
                (watch.options.kind,): (watch.health.heard_at or self.began_at) + ahead_s
                for watch in self.cache.watches
            },
            "homeport_jobs": dict(self.workloads.counts().items()),
            "homeport_queue_oldest_seconds": {(): self.admission.oldest_s()},
            "homeport_gpus": _single(self.nodes.gpus()),
            "homeport_tenants": _single(self.tenants.counts()),
            "homeport_nodeports": {("used",): used, ("free",): max(0, MOST["nodeports"] - used)},
            "homeport_database_bytes": {} if size_bytes is None else {(): size_bytes},
            "homeport_backup_timestamp_seconds": {} if backup_at is None else {(): backup_at},
        }


def _single(counted: Counter[str]) -> dict[Labels, float]:
    return {(state,): number for state, number in counted.items()}


class FleetCollector(Collector):
    """Tells what the reconciler at work in this process knows; nothing while there is none."""

    fleet: Fleet | None = None

    def describe(self) -> Iterator[Metric]:
        for name, (text, labels) in GAUGES.items():
            yield GaugeMetricFamily(name, text, labels=labels)

    def collect(self) -> Iterator[Metric]:
        numbers = self.fleet.numbers() if self.fleet else {}
        for name, samples in numbers.items():
            text, labels = GAUGES[name]
            family = GaugeMetricFamily(name, text, labels=labels)
            for values, number in samples.items():
                family.add_metric(values, number)
            yield family


COLLECTOR = FleetCollector()
REGISTRY.register(COLLECTOR)
