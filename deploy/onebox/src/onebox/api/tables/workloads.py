"""The rows of Deployments, ReplicaSets, Jobs, Services and EndpointSlices."""

from __future__ import annotations

from datetime import datetime

from onebox.api.resources import Obj
from onebox.api.tables.cells import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    age,
    containers,
    format_labels,
    format_selector,
    has_condition,
    human_duration,
    listed,
    name_of,
    wide,
)
from onebox.api.timestamps import parse_time

_CONTAINERS = (wide("Containers"), wide("Images"), wide("Selector"))

DEPLOYMENT = (NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *_CONTAINERS)
REPLICASET = (
    NAME,
    Column("Desired", "integer"),
    Column("Current", "integer"),
    Column("Ready", "integer"),
    AGE,
    *_CONTAINERS,
)
JOB = (NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *_CONTAINERS)
SERVICE = (
    NAME,
    Column("Type"),
    Column("Cluster-IP"),
    Column("External-IP"),
    Column("Port(s)"),
    AGE,
    wide("Selector"),
)
ENDPOINT_SLICE = (NAME, Column("AddressType"), Column("Ports"), Column("Endpoints"), AGE)

# The first of these conditions that is True gives the Status column of a Job.
_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def deployment_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Deployment."""
    spec, status = obj["spec"], obj.get("status", {})
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *containers(spec["template"]),
        format_selector(spec.get("selector")),
    ]


def replicaset_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a ReplicaSet."""
    spec, status = obj["spec"], obj.get("status", {})
    return [
        name_of(obj),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *containers(spec["template"]),
        format_selector(spec.get("selector")),
    ]


def _job_word(job: Obj) -> str:
    for condition, word in _JOB_WORDS:
        if condition and has_condition(job, condition):
            return word
        if not condition and "deletionTimestamp" in job["metadata"]:
            return word
    return "Running"


def job_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Job."""
    spec, status = obj["spec"], obj.get("status", {})
    done, wanted = status.get("succeeded", 0), spec.get("completions")
    if wanted is None:
        parallelism = spec.get("parallelism", 1)
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    else:
        completions = f"{done}/{wanted}"
    took = ""
    if status.get("startTime"):
        ended = status.get("completionTime")
        end = parse_time(ended) if ended else now
        took = human_duration((end - parse_time(status["startTime"])).total_seconds())
    return [
        name_of(obj),
        _job_word(obj),
        completions,
        took,
        age(obj, now),
        *containers(spec["template"]),
        format_selector(spec.get("selector")),
    ]


def service_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Service."""
    spec = obj["spec"]
    return [
        name_of(obj),
        spec["type"],
        next(iter(spec.get("clusterIPs", ())), NONE),
        _external(obj),
        ",".join(_port(port) for port in spec.get("ports", ())) or NONE,
        age(obj, now),
        format_labels(spec.get("selector")),
    ]


def _external(service: Obj) -> str:
    spec = service["spec"]
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec["type"] != "LoadBalancer":
        return ",".join(addresses) or NONE
    given = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    known = [entry.get("ip") or entry.get("hostname", "") for entry in given]
    return ",".join([*known, *addresses]) or "<pending>"


def _port(port: Obj) -> str:
    inner = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{inner}/{port['protocol']}"


def endpoint_slice_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of an EndpointSlice."""
    ports = (str(port.get("port") or port.get("name") or "*") for port in obj.get("ports", ()))
    addresses = (a for endpoint in obj.get("endpoints", ()) for a in endpoint["addresses"])
    return [name_of(obj), obj["addressType"], listed(ports), listed(addresses), age(obj, now)]
