"""The body that asks for a training, for REST, pages and the command line: read, checked and written."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import msgspec
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.fields import empty

from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import spec_of
from jobs.kinds.training.continuing import (
    FIELD,
    FinishedTraining,
    continued,
    taken_over,
    takes_over,
)
from jobs.kinds.training.fields import (
    AddressesName,
    ClusterFlags,
    Command,
    Indexes,
    PoolName,
    Readers,
    Replicas,
    SuccessPolicyName,
    TopologyName,
    readers_of,
    written,
)
from jobs.kinds.training.images import TrainingImage
from jobs.kinds.training.source import SourceSerializer
from jobs.kinds.training.spec import PRIORITIES, RunPolicy, TrainingSpec
from jobs.kinds.training.variables import SecretUses, Variables
from jobs.rules import other_words
from jobs.rules.queue.state import HIGH, LOW, NORMAL
from jobs.rules.restarts import RestartPolicy
from jobs.rules.topologies import (
    OPTIONS,
    SINGLE,
    Topology,
    get_topology,
    joined,
    success_policy,
)
from portal.catalog import max_duration_s
from portal.quantity import duration_text
from portal.web.fields import (
    Duration,
    FixedChoice,
    FixedInteger,
    MemoryRequest,
    Name,
    TrueOrFalse,
)
from portal.web.forms import Widget
from tenants.policy import may

MAX_SECONDS = 90 * 86400
SERVERS_S = 8 * 3600  # time limit of servers that nobody has given one
_RUN = RunPolicy()  # its defaults
_NUMERIC = {"inputmode": "numeric"}
_UNSAID: tuple[object, ...] = (None, ())


def _widget(group: str, place: int = 99, template: str = "", **shown: Any) -> dict[str, Widget]:
    """How the page of a new training asks for a field; the groups are those of `TrainingForm`."""
    return {"widget": Widget(group, place, template and f"training/_{template}.html", **shown)}


def _optional(group: str, place: int, **shown: Any) -> dict[str, Any]:
    """The same of one that may be left out, or null."""
    return {"required": False, "allow_null": True, "style": _widget(group, place, **shown)}


@extend_schema_serializer(component_name="Submit")
class TrainingSerializer(SpecSerializer):
    """The body of a submit."""

    name = Name(
        label=_("Name"),
        style=_widget(
            "what",
            1,
            hint=_(
                "For you and your team; letters from a to z, digits, spaces, dots, dashes and underscores."
            ),
            attributes={"maxlength": "80", "placeholder": _("mnist second try")},
        ),
    )
    topology = TopologyName(
        label=_("Topology"), default=SINGLE.name, style=_widget("where", 1, "topology")
    )
    image = TrainingImage(label=_("Image"), style=_widget("how", 3, "image"))
    command = Command(label=_("Command"), style=_widget("how", 1, "command"))
    source = SourceSerializer(
        label=_("Code"), required=False, allow_null=True, style=_widget("what", 2, "source")
    )  # type: ignore[assignment]  # a declared field named like DRF's own attribute; the metaclass takes it out
    replicas = Replicas(required=False, style=_widget("where", 2, "replicas_input"))
    parallelism = FixedInteger(
        label=_("Parallelism"),
        least=1,
        most=1000,
        **_optional(
            "where",
            3,
            hint=_(
                "How many workers run at a time; so many count against the quota. Empty: at most 10."
            ),
            attributes=_NUMERIC,
        ),
    )
    max_failed = FixedInteger(
        label=_("Failure limit"),
        most=1000,
        **_optional(
            "where",
            4,
            hint=_("If more workers than this fail, the others are stopped. Empty: all run."),
            attributes=_NUMERIC,
        ),
    )
    indexes = Indexes(
        label=_("Indexes"),
        **_optional("where", 5, hint=_("Which of the workers run, as 3,17-20. Empty: all.")),
    )
    env = Variables(
        label=_("Environment variables"), required=False, style=_widget("how", 4, "env")
    )
    secrets = SecretUses(
        label=_("Secrets"),
        required=False,
        help_text="name of a secret -> env (variables) or files (below /secrets/NAME)",
        style=_widget("how", 5, "secrets"),
    )
    cluster_flags = ClusterFlags(
        label=_("Cluster flags"),
        required=False,
        help_text="or true for ps_hosts, worker_hosts, job_name and task_index, or false",
        style=_widget("how", 2, "cluster_flags"),
    )
    sparse_spec = TrueOrFalse(
        source="run_policy.sparse_spec",
        label=_("Sparse cluster spec"),
        default=_RUN.sparse_spec,
        style=_widget(
            "where",
            6,
            hint=_(
                "TF_CONFIG names to each worker itself and the parameter servers only; one that ends "
                "or is lost is started again alone."
            ),
            choices=(("False", _("no")), ("True", _("yes"))),
        ),
    )
    success_policy = SuccessPolicyName(
        source="run_policy.success_policy",
        label=_("Success condition"),
        **_optional(
            "more",
            4,
            choices=(
                ("", _("all workers, or the chief where there is one")),
                ("chief", _("the chief")),
                ("worker0", _("worker 0")),
                ("all", _("all workers, and the chief")),
            ),
        ),
    )
    priority = FixedChoice(
        PRIORITIES,
        label=_("Priority"),
        default=NORMAL,
        style=_widget(
            "more",
            10,
            hint=_(
                "Low: may be stopped for trainings of others, with time to save, and continues by "
                "itself. High, before the rest of the team: a lead or an admin gives it."
            ),
            choices=((LOW, _("low")), (NORMAL, _("normal")), (HIGH, _("high"))),
        ),
    )
    pool = PoolName(
        label=_("Pool"),
        **_optional(
            "where",
            7,
            template="pool",
            hint=_("The nodes for replicas with GPUs; for all replicas where none has a GPU."),
        ),
    )
    placement = FixedChoice(
        ("any", "pack", "spread"),
        label=_("Placement"),
        default="any",
        style=_widget(
            "where",
            8,
            "pool",
            hint=_("A preference: where there is no room for it, replicas are placed anywhere."),
            choices=(
                ("any", _("anywhere")),
                ("pack", _("close together")),
                ("spread", _("apart")),
            ),
        ),
    )
    restart_policy = FixedChoice(
        tuple(policy.value for policy in RestartPolicy),
        source="run_policy.restart_policy",
        label=_("Restart policy"),
        default=_RUN.restart_policy,
        style=_widget(
            "more",
            1,
            hint=_(
                "By exit code: 1 to 127 end the training, 128 and above (ended by a signal) are "
                "retried. Lost nodes never count."
            ),
            choices=(
                ("on_failure", _("retry every failure")),
                ("exit_code", _("retry by exit code")),
                ("never", _("never retry")),
            ),
        ),
    )
    retries = FixedInteger(
        source="run_policy.retries",
        label=_("Retries"),
        most=10,
        default=_RUN.retries,
        style=_widget(
            "more",
            0,
            hint=_("New attempts after a failure, 0 to 10. Lost nodes do not count."),
            attributes=_NUMERIC,
        ),
    )
    deadline_s = Duration(
        source="run_policy.deadline_s",
        label=_("Time limit"),
        least=10,
        most=MAX_SECONDS,
        **_optional(
            "more",
            2,
            hint=_(
                "Stops the training after this time, for example 8h; its program then has 60 s to save. "
                "Empty: none."
            ),
            attributes={"placeholder": _("none")},
        ),
    )
    starting_deadline_s = Duration(
        source="run_policy.starting_deadline_s",
        label=_("Start timeout"),
        least=10,
        most=86400,
        default=_RUN.starting_deadline_s,
        style=_widget(
            "more",
            3,
            hint=_(
                "If not all replicas are scheduled in this time, the training returns to the queue."
            ),
        ),
    )
    clean_policy = FixedChoice(
        ("running", "all", "none"),
        source="run_policy.clean_policy",
        label=_("Pod cleanup"),
        default=_RUN.clean_policy,
        style=_widget(
            "more",
            5,
            hint=_("At the end of the training. Logs and files are kept."),
            choices=(
                ("running", _("running pods")),
                ("all", _("all pods")),
                ("none", _("none")),
            ),
        ),
    )
    ttl_s = Duration(
        source="run_policy.ttl_s",
        label=_("Keep finished pods for"),
        most=MAX_SECONDS,
        default=_RUN.ttl_s,
        style=_widget(
            "more",
            6,
            hint=_("How long finished pods stay in the cluster. The page of the training stays."),
        ),
    )
    continue_from = FinishedTraining(
        label=_("Continue from"),
        **_optional(
            "more",
            8,
            hint=_("ID of a training that has ended: LOG_DIR is its folder, with its checkpoints."),
        ),
    )
    shm = MemoryRequest(
        source="shm_bytes",
        label=_("Shared memory"),
        least=2**20,
        most=2**40,
        **_optional(
            "more",
            7,
            hint=_(
                "Size of /dev/shm, for example 1Gi. Counts as memory. Empty: the cluster's default."
            ),
            attributes={"placeholder": _("default")},
        ),
    )

    addresses = AddressesName(
        ("names", "ip"),
        source="run_policy.addresses",
        label=_("Addresses of replicas"),
        default=_RUN.addresses,
        style=_widget(
            "more",
            9,
            hint=_(
                "IP addresses do not need the cluster's DNS; a replica that comes back at another one "
                "begins a new attempt, which costs no retry."
            ),
            choices=(("names", _("names")), ("ip", _("IP addresses"))),
        ),
    )

    def run_validation(self, data: Any = empty) -> Any:
        """Fills in what the rest of a body leaves no doubt about.

        Without command or image it is the request of the training that it continues, but for what it says. With
        parameter servers and without a topology it is `tf-ps`.
        """
        if isinstance(data, Mapping) and (told := other_words.answers(data)):
            wrong = {
                path: serializers.ErrorDetail(text, "unknown_field") for path, text in told.items()
            }
            raise serializers.ValidationError(wrong)
        if isinstance(data, Mapping) and takes_over(data):
            try:
                old = self.fields[FIELD].run_validation(data[FIELD])
            except serializers.ValidationError as error:
                raise serializers.ValidationError({FIELD: error.detail}) from error
            before = self.to_representation(spec_of(old, TrainingSpec))
            data = self.initial_data = taken_over(before, data)
        if isinstance(data, Mapping) and _has_servers_alone(data):
            replicas = {"worker": {}, **data["replicas"]}
            data = self.initial_data = {**data, "topology": "tf-ps", "replicas": replicas}
        return super().run_validation(data)

    def validate(self, attrs: dict[str, Any]) -> TrainingSpec:
        asked = {name: value for name, value in attrs.items() if name != FIELD}
        spec = self._with_deadline(msgspec.convert(asked, TrainingSpec))
        self._check_priority(spec)
        if (old := attrs.get(FIELD)) is not None:
            spec = continued(spec, old)
        topology = get_topology(spec.topology)
        for name, why in _contradictions(spec).items():
            _refuse("contradiction", why, name)
        if spec.least or spec.run_policy.sparse_spec or topology.is_array:
            spec = self._with_names(spec, topology)
        try:
            success_policy(topology, spec.run_policy.success_policy, spec.replicas)
        except ValueError as error:
            _refuse("invalid_choice", f"{error}.", "success_policy")
        return spec

    def _check_priority(self, spec: TrainingSpec) -> None:
        user, tenant = self.context.get("user"), self.context.get("tenant")
        if spec.priority == HIGH and not (user and may(user, "prefer", tenant)):
            text = _("Only a lead of the team or an admin may give the priority high.")
            _refuse("not_allowed", text, "priority")

    def _with_names(self, spec: TrainingSpec, topology: Topology) -> TrainingSpec:
        """The same where replicas are replaced alone, if it can be so: they find each other by name."""
        for name in sorted(topology.elastic_env.keys() & spec.env.keys()):
            why = f"{name} is set by the topology {topology.name}."
            _refuse("forbidden_name", why, "env", name)
        if spec.run_policy.addresses == "names":
            return spec
        if self.initial_data.get("addresses"):  # else it is what the catalog says
            text = _(
                "With min, with sparse_spec and of an array this cannot be ip: a replica that is "
                "replaced moves."
            )
            _refuse("contradiction", text, "addresses")
        by_name = msgspec.structs.replace(spec.run_policy, addresses="names")
        return msgspec.structs.replace(spec, run_policy=by_name)

    def _with_deadline(self, spec: TrainingSpec) -> TrainingSpec:
        """Servers that no replica drives need a time limit, for they do not end by themselves.

        What the catalog says is the most that one may ask for, and what one has that asks for none.
        """
        is_driven = not get_topology(spec.topology).deciding(spec.replicas).program
        most_s, asked_s = max_duration_s("training"), spec.run_policy.deadline_s
        if asked_s is not None:
            if most_s is not None and asked_s > most_s:
                text = _("At most %(most)s, which the admin has set for all trainings.")
                _refuse("out_of_range", text % {"most": duration_text(most_s)}, "deadline_s")
            return spec
        if is_driven:
            deadline_s = most_s
        else:
            if "deadline_s" in self.initial_data:
                text = _("Without a master the servers need a time limit, for example 8h.")
                _refuse("required", text, "deadline_s")
            deadline_s = min(SERVERS_S, most_s or SERVERS_S)
        policy = msgspec.structs.replace(spec.run_policy, deadline_s=deadline_s)
        return msgspec.structs.replace(spec, run_policy=policy)

    def to_representation(self, instance: TrainingSpec) -> dict[str, Any]:
        """The body that asks for the same."""
        return written(instance, self._readers)

    @cached_property
    def _readers(self) -> Readers:
        return readers_of(self)


def _has_servers_alone(body: Mapping[str, Any]) -> bool:
    """Whether it names parameter servers, and no topology."""
    replicas = body.get("replicas")
    return not body.get("topology") and isinstance(replicas, Mapping) and "ps" in replicas


def _refuse(code: str, text: Any, field: str, part: str = "") -> NoReturn:
    """
    Args:
        part: of the field, that is wrong.
    """
    wrong = [serializers.ErrorDetail(str(text), code)]
    raise serializers.ValidationError({field: {part: wrong} if part else wrong})


def _contradictions(spec: TrainingSpec) -> dict[str, Any]:
    """Field -> a sentence, of those that do not go with another one."""
    wrong: dict[str, Any] = {}
    policy, retries = spec.run_policy.restart_policy, spec.run_policy.retries
    if policy == RestartPolicy.NEVER and retries:
        wrong["restart_policy"] = _("With retries this cannot be never.")
    if policy == RestartPolicy.EXIT_CODE and not retries:
        wrong["restart_policy"] = _("Nothing is retried without retries: enter 1 to 10 of them.")
    said = {**msgspec.structs.asdict(spec), **msgspec.structs.asdict(spec.run_policy)}
    for name, topologies in OPTIONS.items():
        is_unsaid = said[name] in _UNSAID or said[name] is False  # 0 is a number
        if spec.topology not in topologies and not is_unsaid:
            text = _("This goes with the topology %(names)s only.")
            wrong[name] = text % {"names": joined(topologies, "or")}
    alone = spec.replicas.keys() & {"chief", "evaluator"}
    if "sparse_spec" not in wrong and spec.run_policy.sparse_spec and alone:
        wrong["sparse_spec"] = _(
            "A chief has to know all workers, and an evaluator goes with one. Leave out both, or this."
        )
    if "indexes" not in wrong and spec.indexes:
        last = spec.replicas["worker"].count - 1
        if spec.indexes_of("worker")[-1] > last:
            wrong["indexes"] = _("The highest index is %(last)s.") % {"last": last}
    return wrong
