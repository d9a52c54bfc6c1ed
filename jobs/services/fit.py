"""Whether a notebook or TensorBoard would fit now, later or never, from what the database knows."""

from dataclasses import replace

from jobs.fit import fit_needs
from jobs.rules.admission import Fit
from jobs.rules.needs import need_of
from jobs.services.submission import ServiceRequest
from tenants.models import Tenant


def fit(request: ServiceRequest, tenant: Tenant) -> Fit:
    """The answer for one request; the `field` of a `never` is cpu, memory, gpu or empty."""
    need = need_of(request.kind, request.cpu_millicores, request.memory_bytes, request.gpu_count)
    answer = fit_needs([need], tenant)
    field = answer.field.rpartition(".")[2]
    return replace(answer, field=field if field in {"cpu", "memory", "gpu"} else "")
