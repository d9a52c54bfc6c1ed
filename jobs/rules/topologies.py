"""The shapes that a training can have: roles, who decides its end, what each replica is told.

A new topology is one entry of the table here, one program in `docs/examples` and one test. Names of
variables are those of Kubeflow's operators and of torchrun, so that scripts written for these run
unchanged.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from jobs.pod.protocol import codes
from jobs.pod.protocol.placeholders import fill

T = TypeVar("T")


class SuccessPolicy(StrEnum):
    """Which replicas must succeed for the training to be a success."""

    CHIEF = "chief"
    WORKER0 = "worker0"
    ALL = "all"


class RoleKind(StrEnum):
    """What starts the replicas of a role."""

    JOB = "job"  # one Indexed Job; a program may end by itself
    DEPLOYMENT = "deployment"  # one Deployment per replica, which starts again in place at once


@dataclass(frozen=True)
class Role:
    """One role of a topology.

    Attributes:
        name: at most 9 characters, as it becomes part of host names.
        one, many: what one replica and several are called in sentences.
        place: where people think of it among the others: workers have 1.
        least: fewest replicas; 0: the role may be left out.
        most: most replicas; None: as many as the catalog allows.
        decides: its replicas may decide the training's end. Those of the first such role that a
            training has do; all others serve until they have ended.
        kind: what starts its replicas.
        program: what of ours runs in them instead of the training's command, in the words of job.json;
            empty for the command.
        is_apart: no other replica talks to it, so it is in no list of hosts, and it may fail.
        outlives_s: how long a serving replica may go on after the deciding ones have succeeded.
        may_shrink: it may be asked to go on with fewer than all its replicas. Each is then replaced by
            itself, and the attempt ends when the first, by which the others meet, fails for good.
        replaced_when_lost: a replica that the cluster took away is replaced by itself, and the others
            go on meanwhile; else the attempt ends with it.
    """

    name: str
    one: str
    many: str
    place: int = 1
    least: int = 1
    most: int | None = None
    decides: bool = True
    kind: RoleKind = RoleKind.JOB
    may_shrink: bool = False
    replaced_when_lost: bool = False
    is_apart: bool = False
    program: str = ""
    outlives_s: int = 30

    def title_of(self, count: int = 2) -> str:
        """Heading of so many replicas."""
        words = self.one if count == 1 else self.many
        return words[0].upper() + words[1:]


@dataclass(frozen=True)
class AskedRoles:
    """What advice goes by.

    Attributes:
        counts, gpus: role -> replicas, and GPUs of each.
        least: role -> fewest replicas, of those that may shrink.
        command: the words.
        node_gpus: most GPUs of one node; 0: unknown.
    """

    counts: Mapping[str, int]
    gpus: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    node_gpus: int = 0


@dataclass(frozen=True)
class Advice:
    """A sentence for people whose request works, but may work better otherwise."""

    applies: Callable[[AskedRoles], bool]
    text: str


@dataclass(frozen=True)
class Topology:
    """One row of the table below.

    Attributes:
        title: what people choose.
        help: two sentences: what it is for, and how its replicas work together.
        roles: in the order in which people think of them.
        env: variable -> template of its value, filled for each replica as the command is
            (`jobs/pod/protocol/placeholders.py`); one that comes to the empty text is left out.
        elastic_env: the same for a role that may shrink, instead.
        advice: of this topology; `ADVICE` holds for all.
        options: fields of a request that only some topologies have, and this one has.
        is_array: its replicas know nothing of each other: some run while others wait, each is tried
            again by itself, and all of them have to succeed.
    """

    name: str
    title: str
    help: tuple[str, str]
    roles: tuple[Role, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    elastic_env: Mapping[str, str] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    options: tuple[str, ...] = ()
    is_array: bool = False

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)

    @property
    def is_one_machine(self) -> bool:
        """Whether none of its replicas needs another one."""
        return self.is_array or all(role.most == 1 for role in self.roles)

    def present(self, roles: Collection[str]) -> tuple[Role, ...]:
        """Those of a training that asks for these."""
        return tuple(role for role in self.roles if role.name in roles)

    def meeting(self, roles: Collection[str]) -> tuple[Role, ...]:
        """Those of them whose replicas the others talk to: none of an array's."""
        return tuple(role for role in self.present(roles) if not (role.is_apart or self.is_array))

    def role(self, name: str) -> Role:
        """Its role of this name, which it must have."""
        return next(role for role in self.roles if role.name == name)

    def deciding(self, roles: Collection[str]) -> Role:
        """The role whose replicas are the root Job of a training that has these roles."""
        return next(role for role in self.present(roles) if role.decides)

    def serving(self, roles: Collection[str]) -> tuple[Role, ...]:
        """Roles that serve the deciding one and are recycled after it."""
        deciding = self.deciding(roles)
        return tuple(role for role in self.present(roles) if role is not deciding)

    def success_policies(self, roles: Collection[str]) -> tuple[SuccessPolicy, ...]:
        """The policies that make sense for these roles, the default first."""
        if self.is_array:
            return (SuccessPolicy.ALL,)
        chief = (SuccessPolicy.CHIEF,) if "chief" in roles else ()
        # A program of ours does not end by itself.
        has_own = not self.role("worker").program
        return (*chief, SuccessPolicy.ALL, *((SuccessPolicy.WORKER0,) if has_own else ()))


def _starts_processes(command: Collection[str]) -> bool:
    """Whether a command starts one process per GPU by itself."""
    return any(
        launcher in word
        for word in command
        for launcher in ("torchrun", "torch.distributed", "accelerate", "deepspeed")
    )


# TF_CONFIG comes to nothing where a training has one replica, which needs none.
_TENSORFLOW = {"TF_CONFIG": "{{tf_config}}"}
_WORKER = Role("worker", "worker", "workers")
_PS = Role(
    "ps",
    "parameter server",
    "parameter servers",
    place=2,
    decides=False,
    kind=RoleKind.DEPLOYMENT,
    replaced_when_lost=True,
)

SINGLE = Topology(
    "single",
    "Single",
    ("One worker does all the work.", "It may use several GPUs of its node."),
    (replace(_WORKER, most=1),),
    options=("cluster_flags",),
)
ARRAY = Topology(
    "array",
    "Array",
    (
        "For sweeps and many inputs: each worker is a task of its own, TASK_INDEX of TASK_COUNT.",
        "Independent: some run while others wait, and one that fails is tried again by itself.",
    ),
    (replace(_WORKER, replaced_when_lost=True),),
    options=("parallelism", "max_failed", "indexes"),
    is_array=True,
)
# A server does not end by itself: with a master that decides, without one until the time limit.
TF_INGRAPH = Topology(
    "tf-ingraph",
    "TensorFlow servers",
    (
        "For one program that places its operations on the devices of all servers.",
        "A master runs the command and decides; without one a notebook drives, for 8 h if not said.",
    ),
    (
        Role("master", "master", "masters", place=0, least=0, most=1),
        replace(_WORKER, program=codes.TF_SERVER),
        replace(_PS, least=0, program=codes.TF_SERVER),
    ),
    env={**_TENSORFLOW, "TF_MASTER": "grpc://{{first_worker}}"},
    options=("cluster_flags",),
)
TF_PS = Topology(
    "tf-ps",
    "Parameter servers and workers",
    (
        "For TensorFlow's ParameterServerStrategy, and for scripts that read the cluster from flags.",
        "Asynchronous: servers hold the variables and are stopped when the workers have ended.",
    ),
    (
        Role("chief", "chief", "chiefs", place=0, least=0, most=1),
        replace(_WORKER, replaced_when_lost=True),
        _PS,
        # It evaluates checkpoints, the last one after the others have ended.
        Role(
            "evaluator",
            "evaluator",
            "evaluators",
            place=3,
            least=0,
            most=1,
            decides=False,
            is_apart=True,
            replaced_when_lost=True,
            outlives_s=600,
        ),
    ),
    env=_TENSORFLOW,
    advice=(
        Advice(
            lambda asked: asked.counts["ps"] > asked.counts["worker"],
            "There are more parameter servers than workers; fewer servers would do.",
        ),
        Advice(
            lambda asked: asked.counts["worker"] > 16,
            "gRPC traffic grows with workers times servers; above 16 workers try tf-multiworker.",
        ),
    ),
    options=("cluster_flags", "sparse_spec"),
)
TF_MULTIWORKER = Topology(
    "tf-multiworker",
    "TensorFlow workers",
    (
        "For MultiWorkerMirroredStrategy with a custom loop, as fit of Keras 3 does not support it.",
        "Synchronous: each worker has all variables, and gradients are summed at every step.",
    ),
    (_WORKER,),
    env=_TENSORFLOW,
    options=("cluster_flags",),
)
# torchrun reads PET_..., and sets the others anew for each process that it starts. WORLD_SIZE is
# the number of replicas, also with several GPUs each; Kubeflow multiplies it by nprocPerNode.
# https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
TORCH_DDP = Topology(
    "torch-ddp",
    "PyTorch DDP",
    (
        "For DistributedDataParallel, started by torchrun, accelerate, deepspeed or plain python.",
        "Synchronous: each worker has the whole model, and gradients are averaged at every step.",
    ),
    (replace(_WORKER, may_shrink=True),),
    env={
        "MASTER_ADDR": "{{first_host}}",
        "MASTER_PORT": "29500",
        "RANK": "{{task_index}}",
        "WORLD_SIZE": "{{task_count}}",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": "{{task_count}}",
        "PET_NODE_RANK": "{{task_index}}",
        "PET_NPROC_PER_NODE": "{{processes}}",
        "PET_MASTER_ADDR": "{{first_host}}",
        "PET_MASTER_PORT": "29500",
    },
    # All come to the first worker, which is told so: older torch does not know its own name in the DNS.
    elastic_env={
        "PET_NNODES": "{{min_count}}:{{task_count}}",
        "PET_NPROC_PER_NODE": "{{processes}}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "{{first_host}}:29400",
        "PET_RDZV_ID": "{{first_host}}",
        "PET_RDZV_CONF": "is_host={{is_first}}",
        "PET_MAX_RESTARTS": "100",
    },
    advice=(
        Advice(
            lambda asked: bool(asked.least) and not _starts_processes(asked.command),
            "Workers that may be fewer meet by torchrun only: start the program by it.",
        ),
        Advice(
            lambda asked: asked.gpus.get("worker", 0) > 1 and not _starts_processes(asked.command),
            "One process uses one GPU: start the program by torchrun, accelerate or deepspeed.",
        ),
    ),
)
# The first three for jax.distributed.initialize, the others as Kubeflow's JAXJob has them.
# https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/jax/
JAX = Topology(
    "jax",
    "JAX processes",
    (
        "For jax.distributed, with one process per worker; the program passes count and ID on.",
        "Synchronous: all workers run the same program, and collectives join their devices.",
    ),
    (_WORKER,),
    env={
        "JAX_COORDINATOR_ADDRESS": "{{first_host}}:{{first_port}}",
        "JAX_NUM_PROCESSES": "{{task_count}}",
        "JAX_PROCESS_ID": "{{task_index}}",
        "COORDINATOR_ADDRESS": "{{first_host}}",
        "COORDINATOR_PORT": "{{first_port}}",
        "NUM_PROCESSES": "{{task_count}}",
        "PROCESS_ID": "{{task_index}}",
    },
)
# mpirun starts its daemons by our remote shell, from the launcher alone and for as long as they run.
# orte_ is Open MPI 4, prte_ Open MPI 5; HYDRA_ MPICH, I_MPI_ Intel MPI, which nobody has tried here.
# https://docs.open-mpi.org/en/main/launching-apps/ssh.html
# https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
_SHELL, _SLOTS, _HYDRA_SLOTS = (
    f"/homeport/{name}" for name in ("mpi_launch", "hosts.openmpi", "hosts.hydra")
)
MPI = Topology(
    "mpi",
    "MPI",
    (
        "For programs started by mpirun, with Open MPI or MPICH: mpi4py, Horovod, compiled ones.",
        "Synchronous: the launcher runs the command, and its processes start in the workers.",
    ),
    (
        Role("launcher", "launcher", "launchers", place=0, most=1),
        replace(_WORKER, decides=False, program=codes.MPI_DAEMON, outlives_s=0),
    ),
    env={
        "OMPI_MCA_plm_rsh_agent": _SHELL,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_orte_default_hostfile": _SLOTS,
        "PRTE_MCA_plm_ssh_agent": _SHELL,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_prte_default_hostfile": _SLOTS,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": _SHELL,
        "HYDRA_HOST_FILE": _HYDRA_SLOTS,
        "HYDRA_IFACE": "{{interface}}",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": _SHELL,
        "I_MPI_HYDRA_HOST_FILE": _HYDRA_SLOTS,
    },
    advice=(
        Advice(
            lambda asked: not any("mpirun" in word or "mpiexec" in word for word in asked.command),
            "The command runs in the launcher alone: start the program by mpirun.",
        ),
    ),
)
TOPOLOGIES: Mapping[str, Topology] = {
    shape.name: shape
    for shape in (SINGLE, ARRAY, TF_PS, TF_MULTIWORKER, TF_INGRAPH, TORCH_DDP, JAX, MPI)
}
# Field of a request -> names of the topologies that have it; all others are for all.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    name: tuple(other.name for other in TOPOLOGIES.values() if name in other.options)
    for shape in TOPOLOGIES.values()
    for name in shape.options
}
ADVICE = (
    Advice(
        lambda asked: any(
            asked.node_gpus == count and asked.gpus.get(role) == 1 and count > 1
            for role, count in asked.counts.items()
        ),
        "One replica with all GPUs of a node is faster than as many replicas with one GPU each.",
    ),
)


def get_topology(name: str) -> Topology:
    """The topology of this name.

    Raises:
        ValueError: there is none; the text names those that are.
    """
    found = TOPOLOGIES.get(name)
    if found is None:
        raise ValueError(f"there is no topology {name!r}; choose {joined(TOPOLOGIES, 'or')}")
    return found


def joined(names: Collection[str], last: str) -> str:
    """`a, b or c`."""
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final


def find_role_problem(topology: Topology, roles: Collection[str]) -> str:
    """A sentence when the roles are not those of the topology, else empty."""
    needed = [role.name for role in topology.roles if role.least]
    optional = [role.name for role in topology.roles if not role.least]
    if set(needed) <= set(roles) <= set(topology.role_names):
        return ""
    noun = "role" if len(needed) == 1 else "roles"
    allowed = f" and may have {joined(optional, 'and')}" if optional else ""
    exactly = "" if optional else "exactly "
    return f"{topology.name} has {exactly}the {noun} {joined(needed, 'and')}{allowed}."


def success_policy(topology: Topology, asked: str | None, roles: Collection[str]) -> SuccessPolicy:
    """The policy that holds for these roles: what was asked for, else their default.

    Raises:
        ValueError: these roles do not know the policy.
    """
    allowed = topology.success_policies(roles)
    if not asked:
        return allowed[0]
    if asked not in set(allowed):
        choices = joined(allowed, "or")
        raise ValueError(f"{topology.name} cannot end by {asked!r}; choose {choices}")
    return SuccessPolicy(asked)


def needed(
    topology: Topology, policy: SuccessPolicy, counts: Mapping[str, int]
) -> frozenset[tuple[str, int]]:
    """Role and index of each replica that must succeed for the training to be a success."""
    if policy is SuccessPolicy.ALL:
        root = topology.deciding(counts)
        deciding = [
            role.name
            for role in topology.present(counts)
            if role is root or (role.decides and not role.program)
        ]
        return frozenset((role, index) for role in deciding for index in range(counts[role]))
    return frozenset({("chief" if policy is SuccessPolicy.CHIEF else "worker", 0)})


def advice(topology: Topology, asked: AskedRoles) -> list[str]:
    """Sentences that apply to a request."""
    return [one.text for one in (*topology.advice, *ADVICE) if one.applies(asked)]


def environment(
    topology: Topology, gpus: Mapping[str, int], least: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Role -> variable -> template, with what is known before anything runs.

    Args:
        gpus: role -> GPUs of each of its replicas.
        least: role -> fewest replicas, of those that may shrink.
    """
    found: dict[str, dict[str, str]] = {}
    for role, count in gpus.items():
        known = {"processes": str(max(1, count)), "min_count": str(least.get(role, ""))}
        env = topology.elastic_env if role in least else topology.env
        found[role] = {name: fill(text, known) for name, text in env.items()}
    return found


# What a role is called does not depend on the topology; the rest is of the first one that has it.
ROLES: Mapping[str, Role] = {
    role.name: role for shape in reversed((*TOPOLOGIES.values(),)) for role in shape.roles
}


def role_order(role: str) -> int:
    """Where people think of this role among the others; one of no topology comes last."""
    return ROLES[role].place if role in ROLES else len(ROLES)


def in_role_order(replicas: Mapping[str, T]) -> dict[str, T]:
    """The same in the order in which people think of roles, which a database need not keep."""
    return dict(sorted(replicas.items(), key=lambda item: role_order(item[0])))
