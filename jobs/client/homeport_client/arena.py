"""Arena's words on our command line: `submit tf`, `pytorch`, `mpi` and `jax`, each of whose flags is a field of a body.

The flags are those of https://github.com/kubeflow/arena (`pkg/argsbuilder`, as of 2026); what has no
field is answered with what to use instead. Nothing but the command at the end reads or sends anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple

import click

from . import body as ours
from .answers import Json, named, short_id
from .exits import ClientError, usage_error
from .options import Command
from .session import CliSession
from .submit import ARENA_WORDS, SHARED, carry_out

LOG_DIR = "{{log_dir}}"
ARENA_LOG_DIR = "/training_logs"  # what --logdir is where nobody says it
ROLES = ("worker", "ps", "chief", "evaluator")
ALL = frozenset(ARENA_WORDS.values())
TF = frozenset({"tf"})


def _one_of(**values: str) -> Callable[[str], str]:
    """A type that knows Arena's spelling of some values."""

    def read(text: str) -> str:
        if text.lower() not in values:
            raise click.BadParameter(f"{text!r} is none of {', '.join(values)}")
        return values[text.lower()]

    return read


class Flag(NamedTuple):
    """The field of our body that a flag says, `*` in it being worker, chief and evaluator, and whose it is."""

    field: str
    text: str
    kind: Any = str
    words: frozenset[str] = ALL


_COUNT, _TIME = click.IntRange(0, 100_000), ours.duration_s
_CLEAN = _one_of(running="running", all="all", none="none")
_POLICY = _one_of(chiefworker="", allworkers="all")
AMOUNTS = {
    f"--{role}-{amount}": Flag(f"replicas.{role}.{amount}", f"{amount} of each {role}", words=TF)
    for role in ROLES
    for amount in ("cpu", "memory")
}
FLAGS = {
    "--name": Flag("name", "name of the training"),
    "--image": Flag("image", "container image"),
    "--worker-image": Flag("image", "image of all but the ps", words=TF),
    "--workers": Flag("replicas.worker.count", "workers (1)", _COUNT),
    "--gpus": Flag("replicas.*.gpu", "GPUs of each worker, chief and evaluator (0)", _COUNT),
    "--cpu": Flag("replicas.*.cpu", "CPUs of each of them (1)"),
    "--memory": Flag("replicas.*.memory", "memory of each of them (1Gi)"),
    "--retry": Flag("retries", "new attempts after a failure (0)", _COUNT),
    "--priority": Flag("priority", "low, normal or high (normal)"),
    "--pool": Flag("pool", "nodes to run on, in place of selectors and tolerations"),
    "--share-memory": Flag("shm", "size of /dev/shm"),
    "--clean-task-policy": Flag("clean_policy", "pods at the end: Running, All, None", _CLEAN),
    "--running-timeout": Flag("deadline_s", "at most so long: 2h22m", _TIME),
    "--ttl-after-finished": Flag("ttl_s", "cleaned up so long after (1d)", _TIME),
    "--starting-timeout": Flag("starting_deadline_s", "queued again after (5m)", _TIME, TF),
    "--success-policy": Flag("success_policy", "ChiefWorker or AllWorkers", _POLICY, TF),
    "--ps": Flag("replicas.ps.count", "parameter servers (0)", _COUNT, TF),
    "--ps-image": Flag("replicas.ps.image", "image of the parameter servers", words=TF),
    "--ps-gpus": Flag("replicas.ps.gpu", "GPUs of each parameter server (0)", _COUNT, TF),
    "--chief": Flag("replicas.chief.count", "with a chief", bool, TF),
    "--evaluator": Flag("replicas.evaluator.count", "with an evaluator", bool, TF),
    **AMOUNTS,
}

# What Arena has and a body has not -> what to use instead.
ANSWERS = {
    flag: text
    for flags, text in {
        "--mode": "Horovod and MPI are: homeport submit mpi",
        "--ssh-port": "mpi needs no ssh; leave it out.",
        "--gang": "All replicas start together, but in a --pool with its own scheduler; leave it out.",
        "--role-sequence": "A training always starts as a whole; leave it out.",
        "--working-dir": "The working directory is /workspace, with code in code/NAME.",
        "--data-dir": "Folders of nodes are not mounted; put data on your data volume, /data.",
        "--config-file": "Put the file beside the code, or on your data volume, /data.",
        "--mounts-on-launcher": "The launcher has the same volumes; leave it out.",
        "-p": "Write --priority low, normal or high.",
        "--queue": "There is one queue; say on which nodes by --pool NAME, and --priority.",
        "--scheduler": "A pool may have a scheduler of its own: --pool NAME",
        "--rdma --hostnetwork --hostipc --hostpid": "Pods are kept apart from nodes; leave it out.",
        "-a --annotation -l --label": "Trainings are found by name: homeport list --name NAME",
        "--toleration --selector": "Nodes are chosen by their pool: --pool NAME",
        "--worker-selector --ps-selector --chief-selector --evaluator-selector": "Nodes are chosen "
        "by their pool: --pool NAME, of one role --set replicas.ROLE.pool=NAME",
        "--gputopology": "Homeport finds nodes by GPUs, CPUs and memory; leave it out.",
        "--worker-port --ps-port --chief-port": "Each replica has an address; leave it out.",
        " ".join(f"{flag}-limit" for flag in AMOUNTS): "What is requested is the limit, too.",
        "--sync-image --tensorboard-image": "Your admin chooses this image; leave it out.",
        "-n --namespace": "Trainings run in your own namespace; leave it out.",
        "--loglevel --trace --pprof --config --arena-namespace": "Leave this setting out.",
    }.items()
    for flag in flags.split()
}


def translate(word: str, given: Mapping[str, Any], behind: list[str]) -> tuple[Json, list[str]]:
    """The body that the flags of a word mean, with the words behind `--`; and what to tell people of it.

    Raises:
        ClientError: something is not offered, or excludes something else.
    """
    made: Json = {"replicas": {"worker": {}}}
    computing = ("worker", *(role for role in ("chief", "evaluator") if given.get(role)))
    for flag, row in FLAGS.items():
        value = given.get(flag[2:].replace("-", "_"))
        if value is not None and value is not False:
            for role in computing if "*" in row.field else ("",):
                ours.put(made, row.field.replace("*", role), int(value) if value is True else value)
    if given["command"] and behind:
        raise usage_error("There are two commands.", "Write it in quotes, or behind --.")
    words = [given["shell"], "-c", " ".join(given["command"])] if given["command"] else behind
    env = ours.read_env((), given["env"])
    source, fetching = _source(given, env)
    env = {key: value for key, value in env.items() if key not in fetching}
    moved, told = _log_dir(given["logdir"], [*words, *env.values()])
    _check_processes(given.get("nproc_per_node"), int(given["gpus"] or 0))
    topology, more = _topology(word, given, made["replicas"])
    made |= {**topology, "command": moved[: len(words)], "source": source}
    made |= {"env": dict(zip(env, moved[len(words) :]))}
    made = {key: value for key, value in made.items() if value not in (None, {}, [])}
    ours.put_secrets(made, given["secret"])
    ours.set_fields(made, given["set"])
    return made, [*told, *more, *_data(given["data"])]


def _topology(word: str, given: Mapping[str, Any], asked: Json) -> tuple[Json, list[str]]:
    """Topology, roles and who decides the end; and what to tell people of it."""
    roles = {role: row for role, row in asked.items() if role == "worker" or row.get("count")}
    for role in asked.keys() - roles.keys():
        if asked[role].keys() - {"count"}:
            raise usage_error(f"Flags of the {role} go with --{role}.")
    if word != "tf":
        launcher: Json = {"launcher": {}} if word == "mpi" else {}
        topology = {"pytorch": "torch-ddp"}.get(word, word)
        return {"topology": topology, "replicas": {**roles, **launcher}}, []
    policy = given["success_policy"] or ("chief" if {"chief", "ps"} <= roles.keys() else "worker0")
    made: Json = {"topology": "tf-ps", "replicas": roles, "success_policy": policy}
    if "ps" in roles:
        image = given["ps_image"] or (given["worker_image"] and given["image"])
        is_other = image and image != (given["worker_image"] or given["image"])
        of_ps = {key: value for key, value in roles["ps"].items() if key != "image"}
        of_ps |= {"image": image} if is_other else {}
        return {**made, "replicas": {**roles, "ps": of_ps}}, []
    if "evaluator" in roles:
        text = "Without --ps there is no evaluator: submit it as a training of its own."
        raise usage_error(text, "Or add --ps.")
    count = roles["worker"].get("count", 1) + ("chief" in roles)
    made["replicas"] = {"worker": {**roles["worker"], "count": count}}
    told = [f"Without --ps the chief is one worker more: worker 0 of {count}."]
    return {**made, "topology": "tf-multiworker"}, told if "chief" in roles else []


def _source(given: Mapping[str, Any], env: Mapping[str, str]) -> tuple[Json, set[str]]:
    """Code from git, found where Arena puts it; and which variables were only for fetching it."""
    mode, url = given["sync_mode"], given["sync_source"]
    if mode not in (None, "git"):
        raise usage_error(
            f"--sync-mode {mode} is not offered.",
            "Use git, send a folder (homeport submit FOLDER), or --set source.path=/data/FOLDER.",
        )
    if mode and not url:
        raise usage_error("--sync-mode git needs --sync-source URL.")
    refs = [env[key] for key in ("GIT_SYNC_REV", "GIT_SYNC_BRANCH") if env.get(key)]
    fetching = {key for key in env if key.startswith("GIT_SYNC_")}
    if others := fetching - {"GIT_SYNC_REV", "GIT_SYNC_BRANCH"}:
        raise usage_error(
            f"{', '.join(sorted(others))}: put it into a secret.", "--git-secret NAME"
        )
    alone = [key for key in ("GIT_SYNC_REV", "GIT_SYNC_BRANCH") if key in env]
    alone += ["--git-secret"] if given["git_secret"] else []
    if alone and not url:
        verb = "goes" if len(alone) == 1 else "go"
        raise usage_error(
            f"{' and '.join(alone)} {verb} with --sync-source only.",
            "Of another source write --set source.ref=REF and --set source.secret=NAME.",
        )
    name = (url or "").strip("/").rpartition("/")[2].partition(".git")[0]
    ref = {"ref": refs[0]} if refs else {}
    secret = {"secret": given["git_secret"]} if given["git_secret"] else {}
    return ({"git": url, "into": f"code/{name}", **ref, **secret} if url else {}), fetching


def _log_dir(asked: str | None, texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts with the training's log folder in place of Arena's and of `--logdir`; and what to tell.

    Raises:
        ClientError: `--logdir` is elsewhere, and nothing in the texts says so.
    """
    place = (asked or ARENA_LOG_DIR).rstrip("/")
    paths = {ARENA_LOG_DIR, place} - {"/data", "/log"}
    pattern = "|".join(re.escape(path) for path in paths if path.startswith("/"))
    found = [re.sub(rf"(?<![\w./-])({pattern})(?![\w.-])", LOG_DIR, text) for text in texts]
    if found != list(texts):
        return found, [f"{place} is the training's log folder here: {LOG_DIR}."]
    if place != ARENA_LOG_DIR and not place.startswith((LOG_DIR, "$LOG_DIR", "/log/")):
        raise usage_error(
            f"--logdir {asked} is not where TensorBoard looks.",
            f"Let the program write to {LOG_DIR}, and leave --logdir out.",
        )
    return found, []


def _data(asked: Sequence[str]) -> list[str]:
    """What to tell of Arena's volumes, which are claims; here there is one for data, at /data."""
    paths = {text: text.partition(":")[2].rstrip("/") for text in asked}
    for text, path in paths.items():
        if path != "/data" and not path.startswith("/data/"):
            raise usage_error(
                f"--data {text}: your data volume is at /data, and no other is mounted.",
                "Put the data there, and write /data in the command.",
            )
    return [f"{path} is on your data volume." for path in paths.values()]


def _check_processes(asked: str | None, gpu_count: int) -> None:
    """As many processes start in each worker as it has GPUs; torchrun may be told otherwise."""
    if asked not in {None, str(max(1, gpu_count)), *(("auto", "gpu") if gpu_count else ())}:
        raise usage_error(
            f"--nproc-per-node {asked}: torchrun starts a process for each GPU of a worker.",
            f"Say it to torchrun itself: -- torchrun --nproc-per-node={asked} train.py",
        )


def flag_of(word: str) -> Callable[[str], str]:
    """What a field that the portal refuses is called among the flags of a word."""
    names = {"source.git": "--sync-source", "command": "the command"}
    for flag, row in FLAGS.items():
        if word in row.words:
            names |= {row.field.replace("*", role): flag for role in ROLES}
    return lambda field: names.get(field) or ours.flag_of(field)


# --- the command ----------------------------------------------------------------------------------


class ArenaCommand(Command):
    """A command that reads flags as Arena does: also `--syncMode` and `--chief=true`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {
            name for one in self.params if getattr(one, "is_flag", False) for name in one.opts
        }
        words, answers = [], {}
        for word in args:
            name, equals, value = word.partition("=")
            if name.startswith("--"):
                name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
                name = name.replace("--host-", "--host")
                word = name + equals + value
            if name in ANSWERS:
                answers[name] = ANSWERS[name]
            if equals and name in switches:
                word = name if value.lower() in {"true", "1", "t"} else ""
            if word or not equals:
                words.append(word)
        if answers and not ctx.resilient_parsing:
            lines = [f"  {name}: {text}" for name, text in answers.items()]
            raise usage_error("\n".join(["These flags of Arena are not taken here:", *lines]))
        return super().parse_args(ctx, words)


def _options(word: str) -> list[click.Parameter]:
    def option(flag: str, row: Flag) -> click.Option:
        kind: Any = {"is_flag": True} if row.kind is bool else {"type": row.kind}
        return click.Option([flag], help=row.text, **kind)

    made = [option(flag, row) for flag, row in FLAGS.items() if word in row.words]
    if word == "pytorch":
        made.append(click.Option(["--nproc-per-node"], metavar="N", help="as many as GPUs"))
    text = "variables NAME=VALUE; GIT_SYNC_BRANCH is the branch of the code"
    return [
        click.Argument(["command"], nargs=-1, metavar='"COMMAND" or -- COMMAND ...'),
        *made,
        click.Option(["-e", "--env"], multiple=True, metavar="NAME=VALUE", help=text),
        click.Option(["--sync-mode"], metavar="git", help="where code comes from"),
        click.Option(["--sync-source"], metavar="URL", help="its repository, found in code/NAME"),
        click.Option(["--git-secret"], metavar="NAME", help="secret that opens it"),
        click.Option(["--image-pull-secret"], multiple=True, metavar="NAME", help="of yours"),
        click.Option(["--shell"], default="sh", help="what runs a quoted command (sh)"),
        click.Option(["--tensorboard"], is_flag=True, help="with a TensorBoard on its log folder"),
        click.Option(["--logdir"], metavar="PATH", help="where the program writes for it"),
        click.Option(["-d", "--data"], multiple=True, metavar="NAME:/data", help="data: /data"),
    ]


def _tensorboard(session: CliSession, job: Json) -> None:
    """A TensorBoard on the training, which is submitted whatever becomes of this."""
    try:
        row = session.rest.post_once("tensorboards/", {"name": job["name"], "jobs": [job["id"]]})
    except ClientError as error:
        session.terminal.warn(f"there is no TensorBoard: {error.text}")
        return
    session.terminal.tell(f"TensorBoard {named(row)}: homeport tensorboard open {short_id(row)}")


def command(typed: str) -> click.Command:
    """The command of a word, such as `tfjob`."""
    word = ARENA_WORDS[typed]

    def submit(
        session: CliSession, /, *, dry_run: str | None, wait: bool, follow: bool, **given: Any
    ) -> int:
        made, told = translate(word, given, session.command)
        for name in given["image_pull_secret"]:
            if session.rest.get(f"secrets/{name}/").get("kind") != "registry":
                raise usage_error(f"{name} is no registry secret.", "Create one: page Secrets.")
            told.append(f"{name} is used for all of your pods, as every registry secret.")
        if os.path.exists(typed):
            told.append(f"{typed} is the kind of training here; the folder is ./{typed}")
        for text in told:
            session.terminal.tell(text, "dim")
        wanted = ours.SubmitRequest(made, flag_of=ours.typed_as(given["set"], flag_of(word)))
        then = _tensorboard if given["tensorboard"] else None
        return carry_out(session, wanted, dry_run=dry_run, wait=wait, follow=follow, then=then)

    return ArenaCommand(
        "submit",
        callback=click.pass_obj(submit),
        params=[*_options(word), *SHARED],
        help=f"Submit a training with Arena's flags ({word}).",
    )
