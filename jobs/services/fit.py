"""Whether a notebook or TensorBoard would fit now, later or never, from what the database knows."""

from dataclasses import replace

from jobs.fit import fit_requests
from jobs.rules.admission import Fit
from jobs.rules.requests import request_of
from jobs.services.submission import ServiceRequest
from tenants.models import Tenant


def fit(request: ServiceRequest, tenant: Tenant) -> Fit:
    """The answer for one request; the `field` of a `never` is cpu, memory, gpu or empty."""
    replica = request_of(
        request.kind, request.cpu_millicores, request.memory_bytes, request.gpu_count
    )
    answer = fit_requests([replica], tenant)
    field = answer.field.rpartition(".")[2]
    return replace(answer, field=field if field in {"cpu", "memory", "gpu"} else "")
