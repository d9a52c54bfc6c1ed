"""What this process counts and measures of itself for Prometheus, as METRICS_PORT answers it.

Every metric of the portal stands here, but for those that the reconciler works out when it is asked
(`jobs/engine/metrics.py`). Base units; no label names a person, a namespace or a workload, so that the
number of series does not grow with them: https://prometheus.io/docs/practices/naming/
"""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from portal.version import VERSION

disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

_INFO = Info("homeport", "The version that runs.", registry=REGISTRY)
_INFO.info({"version": VERSION})

# --- web ---
HTTP_REQUESTS = Counter(
    "homeport_http_requests_total",
    "Requests answered, probes left out. 499: whoever asked had left.",
    ["route", "method", "code"],
    registry=REGISTRY,
)
HTTP_SECONDS = Histogram(
    "homeport_http_request_duration_seconds",
    "From the head of a request to the end of its answer, with the body that comes and the download that goes.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
    registry=REGISTRY,
)
WEBSOCKETS = Gauge("homeport_websockets", "Open websockets.", ["kind"], registry=REGISTRY)
for _kind in ("logs", "live"):
    WEBSOCKETS.labels(_kind)
LOG_TAILS = Gauge("homeport_log_tails", "Logs of containers that are followed.", registry=REGISTRY)
LOG_LINES = Counter(
    "homeport_log_lines_total", "Lines of live logs sent to viewers.", registry=REGISTRY
)
LOG_LINES_SKIPPED = Counter(
    "homeport_log_lines_skipped_total",
    "Lines of live logs left out for viewers that read too slowly.",
    registry=REGISTRY,
)

# --- reconciler ---
RECONCILER_ACTIVE = Gauge(
    "homeport_reconciler_active",
    "1 in the process whose reconciler holds the lease, else 0.",
    registry=REGISTRY,
)
TICK_SECONDS = Histogram(
    "homeport_reconciler_tick_seconds",
    "How long one look took; there is one each 10 s at least.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    registry=REGISTRY,
)
STEPS = Counter(
    "homeport_reconciler_steps_total",
    "Steps carried out in the cluster and the object store.",
    ["step", "result"],
    registry=REGISTRY,
)
JOB_WAIT_SECONDS = Histogram(
    "homeport_job_wait_seconds",
    "How long workloads were queued before they were admitted.",
    buckets=(1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600),
    registry=REGISTRY,
)
JOBS_FINISHED = Counter(
    "homeport_jobs_finished_total",
    "Workloads that have ended; the reason is its code.",
    ["outcome", "reason"],
    registry=REGISTRY,
)

# --- both ---
KUBERNETES_REQUESTS = Counter(
    "homeport_kubernetes_requests_total",
    "Calls to the Kubernetes API, streams left out; the code is none where there was no answer.",
    ["verb", "kind", "code"],
    registry=REGISTRY,
)
STORE_ERRORS = Counter(
    "homeport_store_errors_total",
    "Operations on the object store that failed.",
    ["operation"],
    registry=REGISTRY,
)
TASK_RESTARTS = Counter(
    "homeport_task_restarts_total",
    "Tasks that died and were started again.",
    ["task"],
    registry=REGISTRY,
)
