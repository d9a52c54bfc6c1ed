# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""The command line and the variables that one replica gets: placeholders, flags, TF_CONFIG.

The runner starts programs by it, and the portal shows it to people before they submit.
"""

import json
import re
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

Hosts = Mapping[str, Sequence[str]]  # role -> addresses by index, `host:port`; in the roles' order

_FORM = re.compile(r"\{\{ *([a-z_]+) *\}\}")
# What `cluster_flags` may name; `log_path` is the older name of `log_dir`.
FLAGS = ("ps_hosts", "worker_hosts", "job_name", "task_index", "data_dir", "log_dir", "log_path")
DEFAULT_FLAGS = FLAGS[:4]  # of `cluster_flags: true`
# What job.json says of the environment since topologies have their own; before, all had this.
OLDER_ENVIRONMENT = {"TF_CONFIG": "{{tf_config}}"}


class ReplicaContext(NamedTuple):
    """Which replica of a training this is, and where it keeps things.

    Attributes:
        role: such as `worker`.
        task_index: of the replica within its role.
        hosts: of all replicas that others talk to.
        data_dir: folder of the data volume.
        log_dir: LOG_DIR, on the log volume: the folder of the training, or of one that it continues.
        attempt: of the training, from 1 on.
        pod_uid: of the replica's pod; empty where none is known.
        interface: the pod's network interface; empty where nobody asks for it.
        role_count: replicas of its role; 0: as `hosts` has, for older versions do not say.
        folder: the training's own one on the log volume; empty: `log_dir` is.
        is_sparse: of all replicas it is told those that it cannot do without.
        deadline_at: until then the attempt may run at least, as of its start; empty: it has no deadline.
    """

    role: str
    task_index: int
    hosts: Hosts
    data_dir: str
    log_dir: str
    attempt: int = 1
    pod_uid: str = ""
    interface: str = ""
    role_count: int = 0
    folder: str = ""
    is_sparse: bool = False
    deadline_at: str = ""

    @property
    def name(self) -> str:
        return f"{self.role}-{self.task_index}"

    @property
    def task_count(self) -> int:
        """Replicas of its role."""
        return self.role_count or len(self.hosts.get(self.role, ())) or 1

    @property
    def known_hosts(self) -> Dict[str, Dict[int, str]]:
        """Role -> index -> address, of those that it is told of.

        Sparse, as tf-operator's enableDynamicWorker: itself and, of a worker, the parameter servers.
        Theirs tells a server a list of its own address alone, which leaves index 1 undefined.
        """
        known = {role: dict(enumerate(hosts)) for role, hosts in self.hosts.items() if hosts}
        if not self.is_sparse:
            return known
        own = {self.role: {self.task_index: known[self.role][self.task_index]}}
        return own if self.role == "ps" else {**own, "ps": known["ps"]}

    @property
    def peer_names(self) -> List[str]:
        """The host names of all other replicas that it is told of."""
        return list(self.peers.values())

    @property
    def peers(self) -> Dict[Tuple[str, int], str]:
        """(role, index) -> host name of all other replicas in its lists of hosts."""
        return {
            (role, index): address.rpartition(":")[0]
            for role, known in sorted(self.known_hosts.items())
            for index, address in known.items()
            if (role, index) != (self.role, self.task_index)
        }

    @property
    def first_address(self) -> str:
        """Where all replicas can meet, `host:port`: the first of the first role."""
        addresses = [address for role in self.hosts.values() for address in role]
        return addresses[0] if addresses else ""

    @property
    def is_first(self) -> bool:
        """Whether that is its own address."""
        return self.task_index == 0 and self.role == next(iter(self.hosts), self.role)

    @property
    def own_folder(self) -> str:
        return self.folder or self.log_dir

    @property
    def artifacts_dir(self) -> str:
        return f"{self.own_folder}/artifacts"

    @property
    def state_parent(self) -> str:
        """Where runner and rescue keep what is theirs, of all attempts."""
        return f"{self.own_folder}/.homeport/{self.name}"

    @property
    def state_folder(self) -> str:
        return f"{self.state_parent}/{self.attempt}-{self.pod_uid[:8]}"


def values(context: ReplicaContext) -> Dict[str, str]:
    """Placeholder name -> text; a role that the training does not have gives the empty text."""
    first_host, _, first_port = context.first_address.rpartition(":")
    return {
        "ps_hosts": ",".join(context.hosts.get("ps", ())),
        "worker_hosts": ",".join(context.hosts.get("worker", ())),
        "job_name": context.role,
        "task_index": str(context.task_index),
        "task_count": str(context.task_count),
        "first_host": first_host,
        "first_port": first_port,
        "first_worker": next(iter(context.hosts.get("worker", ())), ""),
        "interface": context.interface,
        "is_first": str(int(context.is_first)),
        "tf_config": _tf_config(context),
        "data_dir": context.data_dir,
        "log_dir": context.log_dir,
        "log_path": context.log_dir,
        "artifacts_dir": context.artifacts_dir,
    }


def fill(text: str, known: Mapping[str, str]) -> str:
    """The text with `{{name}}` replaced; names that are not known stay as they are.

    One pass: what a value holds is never looked at again.
    """
    return _FORM.sub(lambda match: known.get(match.group(1), match.group(0)), text)


def final_command(
    command: Sequence[str], flags: Sequence[str], context: ReplicaContext
) -> List[str]:
    """The command with placeholders filled, and `--flag=value` appended in the order given."""
    known = values(context)
    return [fill(word, known) for word in command] + [f"--{flag}={known[flag]}" for flag in flags]


def final_environment(
    env: Mapping[str, str], given: Mapping[str, str], context: ReplicaContext
) -> Dict[str, str]:
    """All variables that a training sets, with placeholders filled.

    Args:
        env: what was asked for. What every training has since later versions only does not
            outdo it: TASK_COUNT, ATTEMPT and DEADLINE_AT.
        given: templates of the topology, which outdo it; one that comes to the empty text is left
            out.
    """
    known = values(context)
    filled = {"TASK_COUNT": str(context.task_count), "ATTEMPT": str(context.attempt)}
    if context.deadline_at:
        filled["DEADLINE_AT"] = context.deadline_at
    filled.update((name, fill(text, known)) for name, text in env.items())
    of_topology = {name: fill(text, known) for name, text in given.items()}
    filled.update((name, text) for name, text in of_topology.items() if text)
    filled.update(
        LOG_DIR=context.log_dir,
        DATA_DIR=context.data_dir,
        ARTIFACTS_DIR=context.artifacts_dir,
        JOB_NAME=context.role,
        TASK_INDEX=str(context.task_index),
    )
    return filled


def _tf_config(context: ReplicaContext) -> str:
    """TF_CONFIG as JSON; empty for a training of one replica, which needs none.

    https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
    "environment" is what tf-operator sets: estimators of TensorFlow 1 ask for it.
    """
    if sum(map(len, context.hosts.values())) <= 1:
        return ""
    cluster = {
        role: known if context.is_sparse and role == context.role else list(known.values())
        for role, known in context.known_hosts.items()
    }
    task = {"type": context.role, "index": context.task_index}
    return json.dumps({"cluster": cluster, "environment": "cloud", "task": task}, sort_keys=True)
