# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""The command line and the variables that the program really gets: placeholders, flags, TF_CONFIG.

`jobs/rules/placeholders.py` says the same to the preview; `tests/jobs/placeholder_cases.json` holds
the two together.
"""

import json
import re
from typing import Dict, List

from jobs.pod.task import Config, Task

_FORM = re.compile(r"\{\{ *([a-z_]+) *\}\}")


def _values(config: Config, task: Task) -> Dict[str, str]:
    hosts = config["hosts"]
    return {
        "ps_hosts": ",".join(hosts.get("ps", ())),
        "worker_hosts": ",".join(hosts.get("worker", ())),
        "job_name": task.role,
        "task_index": str(task.task_index),
        "data_dir": config["data_dir"],
        "log_dir": task.folder,
        "log_path": task.folder,
        "artifacts_dir": task.folder + "/artifacts",
    }


def _fill(text: str, known: Dict[str, str]) -> str:
    return _FORM.sub(lambda match: known.get(match.group(1), match.group(0)), text)


def final_command(config: Config, task: Task) -> List[str]:
    """The command with placeholders filled and the cluster flags appended in the order given."""
    known = _values(config, task)
    flags = [f"--{flag}={known[flag]}" for flag in config.get("cluster_flags") or ()]
    return [_fill(word, known) for word in config["command"]] + flags


def final_environment(config: Config, task: Task) -> Dict[str, str]:
    """The asked-for variables with placeholders filled, then ours, which win."""
    known = _values(config, task)
    env = {name: _fill(text, known) for name, text in (config.get("env") or {}).items()}
    env.update(
        LOG_DIR=task.folder,
        DATA_DIR=config["data_dir"],
        ARTIFACTS_DIR=task.folder + "/artifacts",
        JOB_NAME=task.role,
        TASK_INDEX=str(task.task_index),
    )
    hosts = {role: list(names) for role, names in config["hosts"].items() if names}
    if sum(len(names) for names in hosts.values()) > 1:
        place = {"type": task.role, "index": task.task_index}
        env["TF_CONFIG"] = json.dumps({"cluster": hosts, "task": place}, sort_keys=True)
    return env


def whole_environment(config: Config, task: Task, inherited: Dict[str, str]) -> Dict[str, str]:
    """All variables of the program: the pod's, what it asked for, and what makes both work."""
    env = dict(inherited)
    # A program that writes to a pipe would show its output only every few KiB.
    env.setdefault("PYTHONUNBUFFERED", "1")
    proxies = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
    if any(name in env or name.upper() in env for name in proxies):
        # gRPC would send even the traffic between replicas to the proxy.
        env["grpc_proxy"] = ""
        names = [host.rsplit(":", 1)[0] for role in config["hosts"].values() for host in role]
        kept = [word for word in env.get("no_proxy", env.get("NO_PROXY", "")).split(",") if word]
        env["no_proxy"] = env["NO_PROXY"] = ",".join(kept + names)
    env.update(final_environment(config, task))
    return env
