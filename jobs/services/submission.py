"""Turns the bodies by which notebooks and TensorBoards are asked for into a checked
`ServiceRequest`, or into a list of errors that name each field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.checks import (
    Checker,
    as_whole,
    read_amount,
    read_bounded,
    read_image,
    read_name,
)
from jobs.manifests import LOG_ROOT
from jobs.models import Job, Service
from portal.catalog import Size, get_catalog
from portal.cluster import names
from portal.errors import Refused
from tenants.models import Tenant, User

MAX_LOG_DIRS = 50
CPU_BOUNDS = (100, 1_000_000)  # millicores
MEMORY_BOUNDS = (2**28, 2**44)  # bytes; JupyterLab and TensorBoard do not start with less
_NOTEBOOK_FIELDS = frozenset({"name", "image", "size", "cpu", "memory", "gpu"})
_TENSORBOARD_FIELDS = frozenset({"name", "job", "jobs"})


@dataclass(frozen=True)
class ServiceRequest:
    """A checked request; field for field what `jobs.models.Service` keeps.

    Attributes:
        log_dirs: of a TensorBoard: `{"title", "path", "job"}` for each training; empty: all of /log.
    """

    kind: str
    name: str
    image: str
    cpu_millicores: int
    memory_bytes: int
    gpu_count: int = 0
    log_dirs: tuple[Mapping[str, str], ...] = ()


def parse_notebook(body: Mapping[str, Any], *, tenant: Tenant) -> ServiceRequest:
    """The checked form of `{"name", "image"?, "size"?, "cpu"?, "memory"?, "gpu"?}`.

    `cpu` and `memory` override those of the size where the catalog lets them.

    Raises:
        Refused: with every error found, not only the first.
    """
    check = _begin(body, tenant, _NOTEBOOK_FIELDS)
    offered = check.catalog.notebooks
    size = _size(check)
    request = ServiceRequest(
        kind=Service.Kind.NOTEBOOK,
        name=read_name(check),
        image=read_image(
            check, offers=offered.offers, listed=offered.images, default=offered.default_image
        ),
        cpu_millicores=_amount(check, "cpu", size.cpu_millicores, CPU_BOUNDS),
        memory_bytes=_amount(check, "memory", size.memory_bytes, MEMORY_BOUNDS),
        gpu_count=_gpu(check),
    )
    return _finish(check, request)


def parse_tensorboard(body: Mapping[str, Any], *, tenant: Tenant, user: User) -> ServiceRequest:
    """The checked form of `{"name", "job"?: id, "jobs"?: [ids]}`; no job: all of /log.

    Raises:
        Refused: with every error found, not only the first.
    """
    check = _begin(body, tenant, _TENSORBOARD_FIELDS)
    made_of = check.catalog.tensorboards
    request = ServiceRequest(
        kind=Service.Kind.TENSORBOARD,
        name=read_name(check),
        image=made_of.image,
        cpu_millicores=made_of.cpu_millicores,
        memory_bytes=made_of.memory_bytes,
        log_dirs=_log_dirs(check, user),
    )
    return _finish(check, request)


def _begin(body: Mapping[str, Any], tenant: Tenant, known: frozenset[str]) -> Checker:
    check = Checker(body, tenant, get_catalog())
    unknown = sorted(set(map(str, body)) - known)
    if unknown:
        check.refuse(unknown[0][:80], "unknown_field", "There is no such field.")
    return check


def _finish(check: Checker, request: ServiceRequest) -> ServiceRequest:
    if check.errors:
        raise Refused(check.errors)
    return request


# --- notebooks ---
def _size(check: Checker) -> Size:
    offered = check.catalog.notebooks
    slug = check.text("size", default=offered.default_size)
    size = offered.size(slug)
    if size is None:
        words = ", ".join(known.slug for known in offered.sizes)
        check.refuse("size", "invalid_choice", f"{slug[:40]!r} is none of {words}.")
        return offered.sizes[0]
    return size


def _amount(check: Checker, name: str, of_size: int, bounds: tuple[int, int]) -> int:
    given = check.body.get(name)
    if given is None or given == "":
        return of_size
    if check.catalog.notebooks.sizes_locked:
        check.refuse(name, "locked", "Your admin offers sizes only; choose one of them.")
        return of_size
    return read_amount(check, name, given, name, bounds)


def _gpu(check: Checker) -> int:
    offered = check.catalog.notebooks
    given = check.body.get("gpu")
    is_absent = given is None or given == ""
    if offered.gpu_locked:
        if not is_absent and as_whole(given) != offered.max_gpu:
            text = f"Your admin gives each notebook {offered.max_gpu} GPU."
            check.refuse("gpu", "locked", text)
        return offered.max_gpu
    return 0 if is_absent else read_bounded(check, "gpu", given, (0, offered.max_gpu))


# --- TensorBoards ---
def _log_dirs(check: Checker, user: User) -> tuple[Mapping[str, str], ...]:
    """The folders of the chosen trainings, in the order given, each under a title of its own."""
    ids = _job_ids(check)
    if not ids:
        return ()
    # Only what is on this tenant's own log volume can be shown.
    jobs = Job.objects.visible_to(user).filter(tenant=check.tenant, pk__in=set(ids.values()))
    found = {job.pk: job for job in jobs.only("pk", "name")}
    chosen: dict[str, Mapping[str, str]] = {}
    for field, pk in ids.items():
        job = found.get(pk)
        if job is None:
            check.refuse(field, "not_found", "There is no such training of yours.")
            continue
        if str(pk) in chosen:
            continue
        title = job.name
        if any(row["title"] == title for row in chosen.values()):
            title = f"{job.name} {names.short_id(job.pk)}"
        path = f"{LOG_ROOT}/{names.job_name(job.name, job.pk)}"
        chosen[str(pk)] = {"title": title, "path": path, "job": str(pk)}
    return tuple(chosen.values())


def _job_ids(check: Checker) -> dict[str, UUID]:
    """Field of the body -> id, of `job` or `jobs`."""
    one, many = check.body.get("job"), check.body.get("jobs")
    if one not in (None, "") and many not in (None, "", [], ()):
        check.refuse("jobs", "invalid", "Give job or jobs, not both.")
        return {}
    if one not in (None, ""):
        given = {"job": one}
    elif many in (None, ""):
        return {}
    elif not isinstance(many, list | tuple):
        check.refuse("jobs", "invalid", "This must be a list of ids of trainings.")
        return {}
    elif len(many) > MAX_LOG_DIRS:
        text = f"At most {MAX_LOG_DIRS} trainings; leave it empty to see all of them."
        check.refuse("jobs", "too_many", text)
        return {}
    else:
        given = {f"jobs.{place}": value for place, value in enumerate(many)}
    ids: dict[str, UUID] = {}
    for field, value in given.items():
        try:
            ids[field] = UUID(value) if isinstance(value, str) else UUID(int=-1)
        except ValueError:
            check.refuse(field, "not_found", "There is no such training of yours.")
    return ids
