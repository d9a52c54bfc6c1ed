"""The command line and environment that one replica really gets: placeholders, flags, TF_CONFIG.

`jobs/pod/runner.py` does the same inside the pod with a copy of these few lines (it may import
nothing of ours); `tests/jobs/placeholder_cases.json` holds the two together. The preview uses this
module, so that a person sees what will run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.rules.autospec import Hosts, tf_config

_FORM = re.compile(r"\{\{ *([a-z_]+) *\}\}")
# What `cluster_flags` may name; `log_path` is the older name of `log_dir`.
FLAGS = ("ps_hosts", "worker_hosts", "job_name", "task_index", "data_dir", "log_dir", "log_path")
DEFAULT_FLAGS = FLAGS[:4]  # of `cluster_flags: true`


@dataclass(frozen=True)
class Place:
    """Where one replica stands in its training.

    Attributes:
        role: such as `worker`.
        index: of the replica within its role.
        hosts: role -> addresses, as `autospec.hosts` makes it.
        data_dir: folder of the data volume.
        log_dir: the training's own folder on the log volume.
    """

    role: str
    index: int
    hosts: Hosts
    data_dir: str
    log_dir: str

    @property
    def artifacts_dir(self) -> str:
        return f"{self.log_dir}/artifacts"


def values(place: Place) -> dict[str, str]:
    """Placeholder name -> text; a role that the training does not have gives the empty text."""
    return {
        "ps_hosts": ",".join(place.hosts.get("ps", ())),
        "worker_hosts": ",".join(place.hosts.get("worker", ())),
        "job_name": place.role,
        "task_index": str(place.index),
        "data_dir": place.data_dir,
        "log_dir": place.log_dir,
        "log_path": place.log_dir,
        "artifacts_dir": place.artifacts_dir,
    }


def fill(text: str, known: Mapping[str, str]) -> str:
    """The text with `{{name}}` replaced; names that are not known stay as they are.

    One pass: what a value holds is never looked at again.
    """
    return _FORM.sub(lambda match: known.get(match.group(1), match.group(0)), text)


def final_command(command: Sequence[str], flags: Sequence[str], place: Place) -> list[str]:
    """The command with placeholders filled, and `--flag=value` appended in the order given."""
    known = values(place)
    return [fill(word, known) for word in command] + [f"--{flag}={known[flag]}" for flag in flags]


def final_environment(env: Mapping[str, str], place: Place) -> dict[str, str]:
    """The asked-for variables with placeholders filled, then ours, which win."""
    known = values(place)
    filled = {name: fill(text, known) for name, text in env.items()}
    filled.update(
        LOG_DIR=place.log_dir,
        DATA_DIR=place.data_dir,
        ARTIFACTS_DIR=place.artifacts_dir,
        JOB_NAME=place.role,
        TASK_INDEX=str(place.index),
    )
    config = tf_config(place.hosts, place.role, place.index)
    if config is not None:
        filled["TF_CONFIG"] = config
    return filled
