"""Words and files of other systems, answered with what to write here instead. Pure.

The fields are those of training-operator 1.8 (kubeflow.org/v1), Trainer 2 (TrainJob), Volcano 1.12 and batch/v1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

OWN_SCHEDULER = (
    "Ray, Dask and Spark bring a scheduler of their own, which would be a second queue inside one "
    "training. Run them on a cluster with their operators."
)
_BY_DDP = "PyTorch, DeepSpeed and Accelerate run by the topology torch-ddp."
_BY_TF = "TensorFlow runs by tf-ps (parameter servers), tf-multiworker (all workers alike) or tf-ingraph."
_BY_MPI = "Horovod runs under mpirun, by the topology mpi."
# What others call topologies -> what to take here, or why there is none.
TOPOLOGIES = {
    "tf-chief": "For a chief choose tf-ps, and ask for the role chief with count 1.",
    "tf-mwms": "tf-mwms is called tf-multiworker here.",
    **dict.fromkeys(
        ("pytorch", "pytorchjob", "torch", "torchrun", "ddp", "fsdp", "elastic", "deepspeed"),
        _BY_DDP,
    ),
    "accelerate": _BY_DDP,
    **dict.fromkeys(("tf", "tensorflow", "tfjob"), _BY_TF),
    **dict.fromkeys(("horovod", "mpijob", "openmpi", "mpich", "allreduce"), _BY_MPI),
    "jaxjob": "jaxjob is called jax here.",
    **dict.fromkeys(
        ("ps", "parameterserver", "parameterserverstrategy", "between-graph"),
        "For parameter servers choose tf-ps.",
    ),
    "multiworkermirroredstrategy": "MultiWorkerMirroredStrategy runs by tf-multiworker.",
    "mirroredstrategy": "MirroredStrategy uses the GPUs of one node: choose single.",
    **dict.fromkeys(("local", "worker"), "For one worker choose single."),
    "master": "For a master choose tf-ingraph, or tf-ps, where it is called chief.",
    "in-graph": "in-graph is called tf-ingraph here.",
    "distributed": "Choose how its replicas work together: tf-ps, tf-multiworker, torch-ddp, jax or mpi.",
    **dict.fromkeys(("sweep", "job", "indexed"), "For independent tasks choose array."),
    **dict.fromkeys(("ray", "dask", "spark"), OWN_SCHEDULER),
}

_OUT = "leave it out; "
_SAME_IMAGE = "image, of one role replicas.{role}.image"
_SHARED = "leave it out; a training starts as a whole, in Homeport's own queue"
_VOLUMES = "leave it out; /data and /log are in every replica, source brings the code"
_PLACED = "pool, whose nodes have labels and taints; nodes are found by cpu, memory and gpu besides"
_PER_GPU = "replicas.worker.gpu; as many processes start in a worker as it has GPUs"
_PER_SLOT = "replicas.worker.gpu, else replicas.worker.cpu; as many processes start in a worker as it has GPUs, else CPUs"
_SECRETS = "secrets, by the names on the page Secrets: as variables or files"
_CONFIG = "env, with the values themselves, or a file beside the code"
_SECURITY = "leave it out; pods run as the admin has decided for all"
_ACCOUNT = "leave it out; programs have no account in the cluster"
_HOST = "leave it out; pods are kept apart from nodes"
_META = {
    "apiVersion": "leave it out; a body of Homeport has no version",
    "metadata.name": "name",
    "metadata.generateName": "name; trainings may have the same one",
    "metadata.namespace": "leave it out; a training runs in your own namespace",
    "metadata.labels": "leave it out; trainings are found by name, owner and state",
    "metadata.annotations": "leave it out; nothing here reads them",
    "metadata": "leave it out; the cluster writes it",
    "status": "leave it out; the cluster writes it",
}
_POD_META = "leave it out; pods have labels of Homeport's"
_NOTHING_LIKE_IT = "leave it out; there is nothing like it here"
# A field of theirs -> ours, whose name comes first. In a path * is any name or number, which is the role
# where a row says {role}. Likewise the table of docs/training.md.
_POD = {
    "containers.*.image": _SAME_IMAGE,
    "containers.*.command": "command, of one role replicas.{role}.command",
    "containers.*.args": "command, which has the words of both",
    "containers.*.env": "env, with names and values as an object",
    "containers.*.env.*.valueFrom.secretKeyRef": _SECRETS,
    "containers.*.env.*.valueFrom.configMapKeyRef": _CONFIG,
    "containers.*.env.*.valueFrom.fieldRef": "env, in which {{{{job_name}}}} and {{{{task_index}}}} are filled in",
    "containers.*.env.*.valueFrom.resourceFieldRef": "env, with the number itself",
    "containers.*.envFrom": "secrets, by the names on the page Secrets",
    "containers.*.resources": "replicas.{role}.cpu, memory and gpu; the request is the limit, too",
    "containers.*.workingDir": "leave it out; it is /workspace, with the code",
    "containers.*.ports": "leave it out; each replica has a name and a port",
    "containers.*.volumeMounts": _VOLUMES,
    "containers.*.name": "leave it out; a replica has one container of the person's",
    "containers.*.imagePullPolicy": "leave it out; the cluster's default holds, by the image's tag",
    "containers.*.lifecycle": "leave it out; a program gets SIGTERM and has time to save, and command may do more",
    "containers.*.securityContext": _SECURITY,
    "initContainers": "source, which brings the code; what else is to come first belongs in command",
    "priorityClassName": "priority: low, normal or high",
    "securityContext": _SECURITY,
    "serviceAccountName": _ACCOUNT,
    "serviceAccount": _ACCOUNT,
    "automountServiceAccountToken": _ACCOUNT,
    "hostNetwork": _HOST,
    "hostIPC": _HOST,
    "hostPID": _HOST,
    "terminationGracePeriodSeconds": "leave it out; 120 s, and 60 s with a deadline_s",
    "topologySpreadConstraints": "placement: any, pack or spread",
    "activeDeadlineSeconds": "deadline_s",
    "volumes": _VOLUMES,
    "imagePullSecrets": "leave it out; registry logins on the page Secrets are always used",
    "restartPolicy": "restart_policy: never, on_failure or exit_code; Always is on_failure",
    "nodeSelector": _PLACED,
    "tolerations": _PLACED,
    "affinity": _PLACED,
    "schedulerName": _SHARED,
}
_JOB = {
    "activeDeadlineSeconds": "deadline_s",
    "backoffLimit": "retries",
    "ttlSecondsAfterFinished": "ttl_s",
    "suspend": "leave it out; suspend the training once it is submitted",
}
_RUN = {
    **_JOB,
    "cleanPodPolicy": "clean_policy: running, all or none",
    "schedulingPolicy": _SHARED,
}
_KUBEFLOW = {
    **_META,
    **{f"spec.runPolicy.{name}": ours for name, ours in _RUN.items()},
    # Of operators before runPolicy.
    **{f"spec.{name}": ours for name, ours in _RUN.items()},
    **{f"spec.*.*.template.spec.{name}": ours for name, ours in _POD.items()},
    "spec.*.*.template.metadata": _POD_META,
    "spec.*.*.replicas": "replicas.{role}.count",
    "spec.*.*.restartPolicy": _POD["restartPolicy"],
}
_TF = {
    "spec.successPolicy": "success_policy: chief (the default with one), worker0 or all (AllWorkers)",
    "spec.enableDynamicWorker": "sparse_spec",
}
_PYTORCH = {
    "spec.elasticPolicy.minReplicas": "replicas.worker.min",
    "spec.elasticPolicy.maxReplicas": "replicas.worker.count",
    "spec.elasticPolicy.nProcPerNode": _PER_GPU,
    "spec.elasticPolicy.maxRestarts": "leave it out; torchrun gets 100; retries is for the whole training",
    "spec.elasticPolicy.metrics": "leave it out; the count is between min and count by what room there is",
    "spec.elasticPolicy": "leave it out; torchrun is told the rest",
    "spec.nprocPerNode": _PER_GPU,
}
_MPI = {
    "spec.slotsPerWorker": _PER_SLOT,
    "spec.mpiImplementation": "leave it out; Open MPI and MPICH are both told their hosts",
    "spec.sshAuthMountPath": "leave it out; mpirun needs no ssh here",
}
_TRAINER = {
    **_META,
    "spec.suspend": _JOB["suspend"],
    "spec.runtimeRef": "topology",
    "spec.trainer.image": "image",
    "spec.trainer.command": "command",
    "spec.trainer.args": _POD["containers.*.args"],
    **{
        path.replace("containers.*", "spec.trainer"): ours
        for path, ours in _POD.items()
        if path.startswith("containers.*.env")
    },
    "spec.trainer.numNodes": "replicas.worker.count",
    "spec.trainer.numProcPerNode": _PER_GPU,
    "spec.trainer.resourcesPerNode": "replicas.worker.cpu, memory and gpu",
}
_VOLCANO = {
    **_META,
    **{f"spec.tasks.*.template.spec.{name}": ours for name, ours in _POD.items()},
    "spec.tasks.*.template.metadata": _POD_META,
    "spec.tasks.*.name": "replicas, in which roles have the names of the topology",
    "spec.tasks.*.replicas": "replicas.worker.count, or that of another role",
    "spec.tasks.*.policies": "restart_policy: never, on_failure or exit_code",
    "spec.policies": "restart_policy: never, on_failure or exit_code",
    "spec.maxRetry": "retries",
    "spec.ttlSecondsAfterFinished": "ttl_s",
    "spec.minAvailable": _SHARED,
    "spec.queue": _SHARED,
    "spec.schedulerName": _SHARED,
    "spec.plugins": "leave it out; replicas find each other by the topology",
}
_BATCH = {
    **_META,
    **{f"spec.{name}": ours for name, ours in _JOB.items()},
    **{f"spec.template.spec.{name}": ours for name, ours in _POD.items()},
    "spec.template.metadata": _POD_META,
    "spec.completions": "replicas.worker.count, of the topology array",
    "spec.parallelism": "parallelism",
    "spec.backoffLimitPerIndex": "retries",
    "spec.maxFailedIndexes": "max_failed",
    "spec.completionMode": "leave it out; TASK_INDEX is the number of a task",
}
_ARRAY = "topology: single, or array for several completions"
_GROUPED = "topology: what its tasks are to each other, such as tf-ps, torch-ddp or mpi"
# kind -> its topology here, and its fields. A Job is batch/v1's, or Volcano's.
KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "TFJob": ("topology: tf-ps, or tf-multiworker without PS", {**_KUBEFLOW, **_TF}),
    "PyTorchJob": ("topology: torch-ddp", {**_KUBEFLOW, **_PYTORCH}),
    "MPIJob": ("topology: mpi", {**_KUBEFLOW, **_MPI}),
    "JAXJob": ("topology: jax", _KUBEFLOW),
    "TrainJob": ("topology: torch-ddp, mpi or jax, as its runtime", _TRAINER),
    "Job": (_ARRAY, _BATCH),
}
_VOLCANO_JOB = (_GROUPED, _VOLCANO)
_SCHEDULED = re.compile(r"(?:Ray|Spark|ScheduledSpark|Dask)[A-Z]\w*")
# Where a role has another name here.
_ROLES = {"master": "chief", "chief": "chief", "ps": "ps", "evaluator": "evaluator"}
_FIRST = "replicas.worker.count; the {name} is worker 0, so count one more"
_EVALUATOR = "leave it out; without PS there is no evaluator: submit it as a training of its own"
_BY_MPIRUN = "leave it out; mpirun starts the processes in workers"
_CHIEFS = frozenset({"Chief", "Master"})
_MOST_TOLD = 200
_Rows = list[tuple[tuple[str, ...], str]]


def answers(body: Mapping[str, Any]) -> dict[str, str]:
    """Path -> what to write here, for each field of another system's file; nothing for a body of ours.

    Of a file with very many fields the first are answered, and under "" stands how many more there are.
    """
    kind = body.get("kind")
    if not isinstance(kind, str) or not body.keys() & {"apiVersion", "metadata", "spec"}:
        return {}
    if _SCHEDULED.fullmatch(kind):
        return {"kind": OWN_SCHEDULER}
    is_volcano = kind == "Job" and str(body.get("apiVersion")).startswith("batch.volcano.sh/")
    topology, fields = _VOLCANO_JOB if is_volcano else KINDS.get(kind, ("", {}))
    if not topology:
        known = ", ".join(KINDS)
        return {"kind": f"{kind[:40]} is not run here. Known are the fields of {known}."}
    found = {
        "kind": f"A {kind} is not read; write a body of Homeport. Instead of kind, {topology}."
    }
    has_no_ps = kind == "TFJob" and not _has_servers(body)
    more = 0
    for path, ours, names in _known(body, fields):
        if len(found) == _MOST_TOLD:
            more += path not in found
            continue
        name = names[1] if len(names) > 1 else ""
        is_first = (kind, name) == ("PyTorchJob", "Master") or (has_no_ps and name in _CHIEFS)
        if has_no_ps and name == "Evaluator":
            ours = _EVALUATOR
        elif is_first and path.endswith("replicas"):
            ours = _FIRST.format(name=name)
        elif (kind, name) == ("MPIJob", "Worker") and path.endswith((".command", ".args")):
            ours = _BY_MPIRUN
        else:
            ours = ours.format(role="worker" if has_no_ps else _role(kind, names))
        found[path] = _sentence(ours)
    if more:
        found[""] = f"{more} more are not shown."
    return found


def _has_servers(body: Mapping[str, Any]) -> bool:
    """Whether a TFJob has parameter servers, so that it is a `tf-ps` here."""
    spec = body.get("spec")
    roles = spec.get("tfReplicaSpecs") if isinstance(spec, Mapping) else None
    return isinstance(roles, Mapping) and "PS" in roles


def _sentence(ours: str) -> str:
    return f"{ours[0].upper()}{ours[1:]}." if ours.startswith(_OUT) else f"Write {ours}."


def _role(kind: str, names: list[str]) -> str:
    name = names[1].lower() if len(names) > 1 else "worker"
    if kind == "MPIJob" and name == "launcher":
        return name
    return _ROLES.get(name, "worker") if kind == "TFJob" else "worker"


def _known(
    body: Mapping[str, Any], fields: Mapping[str, str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Path, what a table says of it, and what stands for its asterisks; in the order of the file.

    Each field is reported, or the one it is part of: one that the table does not have by what it says of that, else that
    there is nothing like it. Only what the table may still have is looked into, so that a large body costs no more
    than its size.
    """
    rows = [(tuple(path.split(".")), ours) for path, ours in fields.items()]

    def walk(
        value: Any, at: tuple[str, ...], stars: list[str], rows: _Rows, rest: str
    ) -> Iterator[tuple[str, str, list[str]]]:
        own = next((ours for path, ours in rows if len(path) == len(at)), "")
        deeper = [row for row in rows if len(row[0]) > len(at)]
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if own and (not deeper or not isinstance(value, Mapping)):
            yield ".".join(at), own, stars
            rest = ""  # its fields are reported with it, except those with a row
        elif own:
            rest = own
        if not isinstance(inner, Mapping) or not deeper:
            if not own and rest and value not in (None, [], {}):
                yield ".".join(at), rest, stars
            return
        for key, one in inner.items():
            where = (*at, str(key))
            exact = [row for row in deeper if row[0][len(at)] == where[-1]]
            starred = [row for row in deeper if row[0][len(at)] == "*"]
            if exact or starred:
                more = [] if exact else [where[-1]]
                yield from walk(one, where, [*stars, *more], exact or starred, rest)
            elif rest and where != ("kind",):
                yield ".".join(where), rest, stars

    return walk(body, (), [], rows, _NOTHING_LIKE_IT)
