"""A training as manifests that run without Homeport: plain Kubernetes, or a job of Kubeflow's operator.

The pods are those of `manifests.py` with the program's own command and variables in place of the
runner's, and with code brought by `jobs/pod/standalone.py`. What the operator asks for beyond its
CRDs stands in its webhooks, which variables it sets in its controllers:
https://github.com/kubeflow/training-operator/tree/v1.8.1/pkg
"""

import copy
import json
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from jobs.kinds.manifests import PodSecrets, PodSettings, kube_name, pod_settings
from jobs.kinds.spec import spec_of
from jobs.kinds.training.manifests import (
    DATA_DIR,
    LOG_ROOT,
    REPLICA_RESTARTS,
    environment_of,
    render_training,
)
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from jobs.pod.protocol.placeholders import ReplicaContext, fill, final_command, final_environment
from jobs.rules.hosts import PORT, addresses
from jobs.rules.restarts import RestartPolicy
from jobs.rules.topologies import Role, RoleKind, SuccessPolicy, get_topology, success_policy
from portal.cluster import labels
from portal.cluster.manifests import Object, to_yaml
from portal.errors import FieldError, Refused
from tenants import policy
from tenants.models import User

MOST_REPLICAS = 64  # each has objects of its own, which nobody watches
# All objects of an export have it, and nothing of Homeport's.
NAME_LABEL = "app.kubernetes.io/instance"
REPLICA_LABEL = "app.kubernetes.io/component"
_PROGRAM = "/opt/homeport/jobs/pod/standalone.py"
_OF_RUNNER = {"homeport", "config", "token"}  # volumes
_INDEX = "\0"  # stands for an index that only the cluster knows; no text of people's has it
# What the cluster puts in its place: in commands and variables, and in commands alone.
_BY_LABEL, _BY_RANK = "$(TASK_INDEX)", "$(RANK)"
_LABEL = {"fieldRef": {"fieldPath": "metadata.labels['training.kubeflow.org/replica-index']"}}


@dataclass(frozen=True)
class ReplicaGroup:
    """One replica of this index; or, with None, several that an operator makes of one template."""

    role: Role
    count: int = 1
    index: int | None = 0
    reference: str = ""


class Export:
    """What all forms make their objects of.

    Attributes:
        name: of the export, a DNS-1035 label; no object of Homeport's has it.
    """

    def __init__(self, training: Workload, form: "Form") -> None:
        self.training = training
        self.form = form
        self.spec = spec_of(training, TrainingSpec)
        self.topology = get_topology(self.spec.topology)
        self.counts = {role: asked.count for role, asked in self.spec.replicas.items()}
        self.roles = self.topology.present(self.counts)
        self.namespace: str = training.tenant.namespace
        self.name = f"{kube_name(training.name, training.pk, 1)}-export"
        self.log_dir = f"{LOG_ROOT}/{self.name}"
        where = form.address
        self.hosts = addresses(self.topology, self.counts, lambda role, n: where(self, role, n))

    def metadata(self, replica: str = "") -> Object:
        marks = {NAME_LABEL: self.name, **({REPLICA_LABEL: replica} if replica else {})}
        name = f"{self.name}-{replica}" if replica else self.name
        return {"name": name, "namespace": self.namespace, "labels": marks}

    @cached_property
    def settings(self) -> PodSettings:
        """Of its pods, with the person's secrets as they are now; what they trust is the other cluster's."""
        return replace(pod_settings(self.training.tenant, self.spec.secrets), authorities="")

    @cached_property
    def _pods(self) -> Mapping[str, Object]:
        """Role -> spec of its pods as Homeport makes them."""
        documents = render_training(self.training, attempt=1, pods=self.settings)
        made = [one for one in documents if one["kind"] in {"Job", "Deployment"}]
        pods = [one["spec"]["template"] for one in made]
        return {pod["metadata"]["labels"][labels.ROLE]: pod["spec"] for pod in pods}

    def pod(self, replicas: ReplicaGroup) -> Object:
        """Spec of the pods of these replicas, without a policy of restarts."""
        pod = copy.deepcopy(self._pods[replicas.role.name])
        for key in ("restartPolicy", "serviceAccountName", "hostname", "subdomain"):
            pod.pop(key, None)
        pod["volumes"] = [one for one in pod["volumes"] if one["name"] not in _OF_RUNNER]
        [main], [fetch] = pod["containers"], pod["initContainers"]
        main["name"] = self.form.container
        main["command"], env = self._program(replicas)
        fetch["image"] = settings.EXPORT_IMAGE or fetch["image"]
        fetch["command"] = ["python3", _PROGRAM]
        told = _escaped(json.dumps(self._told(replicas), ensure_ascii=False))
        for container, more in ((main, env), (fetch, [{"name": "HOMEPORT_EXPORT", "value": told}])):
            mounts = container["volumeMounts"]
            container["volumeMounts"] = [one for one in mounts if one["name"] not in _OF_RUNNER]
            names = {one["name"] for one in more}
            kept = [one for one in container["env"] if not one["name"].startswith("HOMEPORT_")]
            container["env"] = [one for one in kept if one["name"] not in names] + more
        return pod

    def _told(self, replicas: ReplicaGroup) -> Mapping[str, Any]:
        """What `standalone.py` goes by."""
        source = self.spec.source
        if source is not None and "git" in source and self.training.source_commit:
            source = {**source, "commit": self.training.source_commit}
        # Services of the operator name pods only once these are ready: nobody could wait for them.
        is_alone = replicas.role.is_apart or self.topology.is_array
        is_met = self.form is PLAIN and not is_alone
        peers = self._context(replicas).peer_names if is_met else []
        return {
            "source": source,
            "log_dir": self.log_dir,
            "data_dir": DATA_DIR,
            "limits": {"bundle_bytes": settings.BUNDLE_MAX_BYTES},
            "peers": peers,
        }

    def _context(self, replicas: ReplicaGroup) -> ReplicaContext:
        role = replicas.role.name
        where = (role, replicas.index or 0, self.hosts, DATA_DIR, self.log_dir)
        is_sparse = self.spec.run_policy.sparse_spec
        return ReplicaContext(*where, role_count=self.counts[role], is_sparse=is_sparse)

    def _program(self, replicas: ReplicaGroup) -> tuple[list[str], list[Object]]:
        """Command and variables, but for those that the operator sets."""
        role, index, context = replicas.role.name, replicas.index, self._context(replicas)
        known = {"task_index": _INDEX} if index is None else {}

        def text(given: str) -> str:
            return _escaped(given).replace(_INDEX, replicas.reference)

        flags = (f"--{flag}={{{{{flag}}}}}" for flag in self.spec.cluster_flags)
        words = [fill(word, known) for word in (*self.spec.command_of(role), *flags)]
        command = [text(word) for word in final_command(words, (), context)]
        kept, of_topology = self.form.kept, environment_of(self.spec)[role]
        if kept is not None:
            of_topology = {name: of_topology[name] for name in kept & of_topology.keys()}
        asked = {name: fill(given, known) for name, given in self.spec.env.items()}
        found = final_environment(asked, of_topology, context)
        # The index first, for other variables may refer to it.
        own: Object = {"valueFrom": _LABEL} if index is None else {"value": found["TASK_INDEX"]}
        env = [] if replicas.reference == _BY_RANK else [{"name": "TASK_INDEX", **own}]
        del found["TASK_INDEX"]
        if self.form is not PYTORCHJOB:
            found = {"PYTHONUNBUFFERED": "1", **found}
        return command, env + [{"name": name, "value": text(found[name])} for name in found]


def _escaped(text: str) -> str:
    """The text so that Kubernetes leaves it as it is, for `$(NAME)` is a reference and `$$` a dollar.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    return re.sub(r"\$(?=[$(])", "$$", text)


# --- plain Kubernetes ---
def _plain(export: Export) -> list[Object]:
    """A Service for each replica, and a Job, or a Deployment where it has to start again at once."""
    services, workloads = [], []
    for role in export.roles:
        for index in export.spec.indexes_of(role.name):
            metadata = export.metadata(f"{role.name}-{index}")
            spec = {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": metadata["labels"],
                "ports": [{"name": "replica", "port": PORT}],
            }
            head = {"apiVersion": "v1", "kind": "Service"}
            services.append({**head, "metadata": metadata, "spec": spec})
            pod = export.pod(ReplicaGroup(role, index=index))
            workloads.append(_workload(export, role, metadata, pod))
    return services + workloads


def _workload(export: Export, role: Role, metadata: Object, pod: Object) -> Object:
    marks, deadline_s = metadata["labels"], export.spec.run_policy.deadline_s
    head, restart = {"apiVersion": "batch/v1", "kind": "Job"}, "Never"
    spec: Object = {"backoffLimit": 0}
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    if role.kind is RoleKind.DEPLOYMENT:
        head, restart = {"apiVersion": "apps/v1", "kind": "Deployment"}, "Always"
        spec = {"strategy": {"type": "Recreate"}, "selector": {"matchLabels": marks}}
    template = {"metadata": {"labels": marks}, "spec": {**pod, "restartPolicy": restart}}
    return {**head, "metadata": metadata, "spec": {**spec, "template": template}}


# --- Kubeflow's operator ---
_REPLICA_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}


def _tfjob(export: Export) -> list[Object]:
    asked = export.spec.run_policy.success_policy
    is_all = success_policy(export.topology, asked, export.counts) is SuccessPolicy.ALL
    groups = {
        _REPLICA_TYPES[role.name]: ReplicaGroup(role, export.counts[role.name], None, _BY_LABEL)
        for role in export.roles
    }
    more: Object = {"successPolicy": "AllWorkers" if is_all else ""}
    if export.spec.run_policy.sparse_spec:
        more["enableDynamicWorker"] = True
    return [_operated(export, "tfReplicaSpecs", groups, more)]


def _pytorch_address(export: Export, role: str, index: int) -> str:
    is_master = not index and not export.spec.least
    who = "master-0" if is_master else f"{role}-{index - (not export.spec.least)}"
    return f"{export.name}-{who}:23456"


def _pytorchjob(export: Export) -> list[Object]:
    """Worker 0 is its Master; the others are told their rank, after all other variables.

    Elastic workers have no Master, and find a rank by themselves.
    """
    [role] = export.roles
    count, least = export.counts[role.name], export.spec.least.get(role.name)
    env = environment_of(export.spec)[role.name]
    more: Object = {"nprocPerNode": env["PET_NPROC_PER_NODE"]}
    groups = {"Master": ReplicaGroup(role)}
    if least is not None:
        groups = {"Worker": ReplicaGroup(role, count, None, _BY_LABEL)}
        more["elasticPolicy"] = {
            "minReplicas": least,
            "maxReplicas": count,
            "rdzvBackend": env["PET_RDZV_BACKEND"],
            "rdzvPort": int(env["PET_RDZV_ENDPOINT"].rpartition(":")[2]),
            "rdzvId": export.name,
            "maxRestarts": int(env["PET_MAX_RESTARTS"]),
        }
    elif count > 1:
        groups["Worker"] = ReplicaGroup(role, count - 1, None, _BY_RANK)
    return [_operated(export, "pytorchReplicaSpecs", groups, more)]


def _operated(
    export: Export, field: str, groups: Mapping[str, ReplicaGroup], more: Mapping[str, Any]
) -> Object:
    run, restarts = export.spec.run_policy, export.spec.run_policy.retries
    if (export.spec.least or run.sparse_spec) and run.restart_policy != RestartPolicy.NEVER:
        restarts = max(REPLICA_RESTARTS, restarts)  # others go on meanwhile
    restart = "OnFailure" if restarts else "Never"
    if run.restart_policy == RestartPolicy.EXIT_CODE:
        restart = "ExitCode"
    limits = {"activeDeadlineSeconds": run.deadline_s, "backoffLimit": restarts or None}
    run_policy = {
        "cleanPodPolicy": run.clean_policy.title(),
        "ttlSecondsAfterFinished": run.ttl_s,
        **{name: limit for name, limit in limits.items() if limit is not None},
    }
    specs = {
        name: {
            "replicas": replicas.count,
            "restartPolicy": restart,
            "template": {"spec": export.pod(replicas)},
        }
        for name, replicas in groups.items()
    }
    head = {"apiVersion": "kubeflow.org/v1", "kind": export.form.title}
    spec = {"runPolicy": run_policy, field: specs, **more}
    return {**head, "metadata": export.metadata(), "spec": spec}


# --- the forms ---
@dataclass(frozen=True)
class Form:
    """One way to export a training.

    Attributes:
        title: in small letters its name.
        topologies: of the trainings that it is for.
        container: what the program's container is called, as the operator demands.
        kinds: what `kubectl delete` is given.
        lacks: for the first comment.
        address: (export, role, index) -> where the replica is reached, `host:port`.
        kept: variables of the topology that are written out; None: all. The operator sets the others.
    """

    title: str
    topologies: tuple[str, ...]
    container: str
    kinds: str
    lacks: str
    address: Callable[[Export, str, int], str]
    build: Callable[[Export], list[Object]]
    kept: frozenset[str] | None = None

    @property
    def name(self) -> str:
        return self.title.lower()


_OPERATED = (
    "Kubeflow's training operator 1.8.1 runs it, not Homeport: logs and files are not archived, and "
    "retries are pods that start again, not attempts. "
)
PLAIN = Form(
    "Kubernetes",
    ("single", "array", "tf-ps", "tf-multiworker", "torch-ddp", "jax"),
    "main",
    "jobs,deployments,services",
    "It runs without Homeport: parameter servers, and what else serves the replicas that decide, are "
    "not removed at the end; logs and files are not archived, and nothing is retried.",
    lambda export, role, index: f"{export.name}-{role}-{index}:{PORT}",
    _plain,
)
TFJOB = Form(
    "TFJob",
    ("tf-ps", "tf-multiworker"),
    "tensorflow",
    "tfjobs.kubeflow.org",
    _OPERATED + "With a chief it succeeds when the chief does.",
    lambda export, role, index: f"{export.name}-{role}-{index}.{export.namespace}.svc:{PORT}",
    _tfjob,
    frozenset(),
)
PYTORCHJOB = Form(
    "PyTorchJob",
    ("torch-ddp",),
    "pytorch",
    "pytorchjobs.kubeflow.org",
    _OPERATED
    + "Worker 0 is its Master, unless fewer may go on; the others have RANK, and no TASK_INDEX.",
    _pytorch_address,
    _pytorchjob,
    frozenset({"LOCAL_RANK", "LOCAL_WORLD_SIZE"}),
)
FORMS: Mapping[str, Form] = {form.name: form for form in (PLAIN, TFJOB, PYTORCHJOB)}


def forms_of(spec: TrainingSpec) -> list[Form]:
    """Those that are for a training's topology and variables, wherever its code is."""
    return [form for form in FORMS.values() if not _find_problem_in(spec, form)]


def find_problem(spec: TrainingSpec) -> str:
    """Why a training cannot be exported in any form; else empty."""
    if "bundle" in (spec.source or {}):
        return _(
            "The code is an upload, which only Homeport has. Put it into git, at a URL or below /data."
        )
    if "secret" in (spec.source or {}):
        return _("The code is fetched with a secret, which stays in Homeport.")
    if sum(asked.count for asked in spec.replicas.values()) > MOST_REPLICAS:
        return _("An export has at most %(most)s replicas.") % {"most": MOST_REPLICAS}
    return "" if forms_of(spec) else _("Its replicas need Homeport's own programs.")


def _find_problem_in(spec: TrainingSpec, form: Form) -> str:
    if spec.topology not in form.topologies:
        words = {"form": form.title, "topologies": ", ".join(form.topologies)}
        return _("A %(form)s is for %(topologies)s.") % words
    if form is TFJOB and spec.run_policy.sparse_spec and spec.replicas["ps"].count > 1:
        return _(
            "With sparse_spec a TFJob has one parameter server: its operator tells the others no index."
        )
    if (
        form is PYTORCHJOB
        and not spec.least
        and any("task_index" in text for text in spec.env.values())
    ):
        return _("In a PyTorchJob no variable can have {{task_index}}; the program has RANK.")
    return ""


def exported(training: Workload, form_name: str, user: User) -> tuple[str, str]:
    """The name of a file, and its YAML, whose first comment says how to run it and how to remove it.

    Raises:
        NotAllowedError: somebody else's, whose values are in it.
        Refused: there is no such form, or the training cannot be exported so.
    """
    policy.require(user, "read_values", training.tenant)
    form = FORMS.get(form_name)
    if form is None:
        text = f"Choose one of {', '.join(FORMS)}."
        raise Refused([FieldError("as", "invalid_choice", text)])
    spec = spec_of(training, TrainingSpec)
    problem = find_problem(spec)
    if not problem and (problem := _find_problem_in(spec, form)):
        works = ", ".join(other.name for other in forms_of(spec))
        problem += " " + _("This training can be exported as %(works)s.") % {"works": works}
    if problem:
        raise Refused([FieldError("as", "not_exportable", problem)], status=409)
    export = Export(training, form)
    return f"{export.name}.yaml", _comment(export) + to_yaml(form.build(export))


def _comment(export: Export) -> str:
    """What stands first; no text of people's is in it."""
    where = f"In namespace {export.namespace} it needs the volume claims data and log"
    told = [
        f"Training {export.training.pk} as {export.form.title}, exported by Homeport.",
        export.form.lacks,
        f"{where}; its log folder is {export.log_dir}.",
    ]
    if export.settings.secrets != PodSecrets():
        told.append(
            "The Secrets that it names are of that namespace alone, and go when their values are "
            "replaced: export it again then."
        )
    if "git" in (export.spec.source or {}) and not export.training.source_commit:
        told.append(
            "Its commit is not known yet: each replica fetches what the branch or tag names at that "
            "moment. Export it again once the training has started, or name a commit."
        )
    if export.topology.is_array:
        count, most = len(export.spec.indexes_of("worker")), export.spec.kept_by_role["at_once"]
        if most < count:
            told.append(f"All {count} tasks start at once, not {most} at a time.")
        if export.spec.max_failed is not None:
            told.append(f"No task is stopped when more than {export.spec.max_failed} have failed.")
    selector = f"-l {NAME_LABEL}={export.name}"
    lines = (
        *(line for text in told for line in textwrap.wrap(text, 98)),
        "Run it:    kubectl apply -f FILE",
        f"Remove it: kubectl -n {export.namespace} delete {export.form.kinds} {selector}",
    )
    return "".join(f"# {line}\n" for line in lines)
