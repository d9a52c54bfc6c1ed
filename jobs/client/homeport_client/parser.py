"""The words of the command line: commands, their options, and what they mean."""

from __future__ import annotations

import argparse
from typing import Any

from . import __version__
from .submit_words import add_submit
from .words import Commands, attempt_word, common_options, output_option, whole

EPILOG = """\
Begin with:  homeport login URL
             homeport submit . --image IMAGE -- python train.py
             homeport logs -f NAME

Exit codes:  0 done, 1 error, 2 usage, 3 not signed in, 4 not found, 5 refused or invalid,
             6 portal unreachable, 130 interrupted; with --wait or --follow the training's own.
"""


def build() -> argparse.ArgumentParser:
    """The whole parser."""
    parser = argparse.ArgumentParser(
        prog="homeport",
        description="Trainings, notebooks and TensorBoards of a Homeport portal.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"homeport {__version__}")
    commands = Commands(parser)
    _account(commands)
    add_submit(commands)
    _jobs(commands)
    _artifacts(commands)
    _fleet(commands)
    _services(commands, "notebook", "notebooks", "notebooks: JupyterLab with your volumes")
    _services(commands, "tensorboard", "tensorboards", "TensorBoards on what trainings logged")
    completion = commands.add(
        "completion", "completion:script", "print a script that completes words on Tab"
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def _account(commands: Commands) -> None:
    login = commands.add(
        "login",
        "account:login",
        "sign in to a portal",
        description="Signs in by name and password, which are asked for, and keeps a token in\n"
        "~/.config/homeport (readable by you only). The password is kept nowhere.",
    )
    login.add_argument(
        "url", nargs="?", help="https://... of the portal; http only on this machine"
    )
    login.add_argument("-u", "--user", help="user name; else asked for")
    login.add_argument(
        "--token",
        nargs="?",
        const="",
        metavar="TOKEN",
        help="sign in with a token of the account page; without TOKEN it is asked for, or read "
        "from standard input, and so stays out of the shell's history",
    )
    login.add_argument(
        "--scope", choices=("read", "submit", "admin"), help="what the token may do (all you may)"
    )
    login.add_argument("--days", type=whole(1, 90), help="how long it is good (90)")
    commands.add("logout", "account:logout", "forget the token and revoke it at the portal")
    whoami = commands.add("whoami", "account:whoami", "who you are, and your namespace and quota")
    output_option(whoami)
    context = commands.group("context", "portals that you are signed in to", "context_command")
    output_option(context.add("list", "account:list_contexts", "list them"))
    use = context.add("use", "account:use_context", "choose the one to work with")
    use.add_argument("name")


def _job_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="TRAINING", help="name, id, or how the id begins")


def _jobs(commands: Commands) -> None:
    listed = commands.add(
        "list", "listing:list_jobs", "list trainings, newest first", aliases=["ls"]
    )
    listed.add_argument("-A", "--all-people", action="store_true", help="of all that you may see")
    listed.add_argument("--owner", metavar="USER", help="of one person")
    listed.add_argument(
        "--state", help="queued, starting, running, succeeded, failed, stopped, ..."
    )
    listed.add_argument("--name", help="part of the name")
    listed.add_argument("-n", "--limit", type=whole(1, 200), default=20, help="so many (20)")
    listed.add_argument(
        "--page", type=whole(1, 10**9), default=1, help="which part of the list (1)"
    )
    listed.add_argument("--all", action="store_true", help="the whole list")
    output_option(listed)
    get = commands.add("get", "showing:get_job", "one training: state, reason, replicas, events")
    _job_argument(get)
    get.add_argument("-e", "--events", action="store_true", help="all events")
    output_option(get)
    logs = commands.add(
        "logs",
        "logs:logs",
        "what a training printed; -f: live",
        description="Prints the log of all replicas or of one, also when the training is long over.\n"
        "-f stays until it has ended, and goes on after a lost connection without gap or repeat.",
    )
    _job_argument(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="until the training has ended")
    logs.add_argument("-r", "--replica", metavar="NAME", help="only this one, such as worker-0")
    logs.add_argument(
        "--tail", type=whole(0, 10_000), metavar="N", help="only the last lines of each"
    )
    whose = logs.add_mutually_exclusive_group()
    whose.add_argument(
        "--attempt",
        type=attempt_word,
        metavar="N",
        help="the log of this attempt, 1 is the first; latest; all, one after the other",
    )
    whose.add_argument(
        "-p", "--previous", action="store_true", help="the log of the attempt before the latest"
    )
    logs.add_argument("--timestamps", action="store_true", help="with times, while it is live (-f)")
    logs.add_argument("--raw", action="store_true", help="pass on colours that the program wrote")
    logs.add_argument(
        "--resume",
        action="store_true",
        help="go on where Ctrl-C or a lost connection ended logs -f",
    )
    stop = commands.add("stop", "ending:stop_jobs", "stop trainings, with time to save")
    stop.add_argument("jobs", metavar="TRAINING", nargs="+", help="name, id, or how the id begins")
    stop.add_argument("--reason", default="", help="why; its owner sees it")
    output_option(stop)
    delete = commands.add(
        "delete",
        "ending:delete_jobs",
        "delete trainings with logs and artifacts",
        aliases=["rm"],
    )
    delete.add_argument(
        "jobs", metavar="TRAINING", nargs="+", help="name, id, or how the id begins"
    )
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _artifacts(commands: Commands) -> None:
    group = commands.group("artifacts", "files that a training left", "artifacts_command")
    patterns = "paths or patterns: '*.ckpt', checkpoints/"
    listed = group.add("list", "artifacts:list_artifacts", "list them", aliases=["ls"])
    _job_argument(listed)
    listed.add_argument("patterns", nargs="*", metavar="PATTERN", help=patterns)
    output_option(listed)
    download = group.add(
        "download",
        "artifacts:download_artifacts",
        "download them",
        description="Downloads all files or those that match. What is here already is not fetched again,\n"
        "and what broke off goes on.",
    )
    _job_argument(download)
    download.add_argument("patterns", nargs="*", metavar="PATTERN", help=patterns)
    download.add_argument("-d", "--directory", metavar="DIR", help="where to (ID-artifacts)")
    download.add_argument("--again", action="store_true", help="fetch what is here already, too")
    output_option(download)


def _fleet(commands: Commands) -> None:
    top = commands.group("top", "what nodes have and who uses it", "top_command")
    node = top.add(
        "node", "fleet:top_node", "GPUs, CPU and memory of each node, and who holds GPUs"
    )
    output_option(node)
    output_option(commands.add("queue", "fleet:queue", "what waits, its place, and why"))


def _services(commands: Commands, name: str, kind: str, summary: str) -> None:
    group = commands.group(name, summary, f"{name}_command")

    def add(verb: str, run: str, text: str, **options: Any) -> argparse.ArgumentParser:
        made = group.add(verb, f"services:{run}", text, **options)
        made.set_defaults(kind=kind)
        return made

    create = add("create", "create", "make one and start it")
    create.add_argument("--name", required=True)
    if kind == "notebooks":
        create.add_argument("--image", help="one of those that the portal offers")
        create.add_argument("--size", help="a size that the portal offers")
        create.add_argument("--cpu")
        create.add_argument("--memory")
        create.add_argument("--gpu", type=whole(0, 100000), metavar="N")
    else:
        create.add_argument(
            "jobs", nargs="*", metavar="TRAINING", help="shows these; none: all of /log"
        )
    create.add_argument("-w", "--wait", action="store_true", help="until it runs")
    create.add_argument("--open", action="store_true", help="and open it in the browser")
    create.add_argument("--print", action="store_true", help="print the address instead")
    output_option(create)
    output_option(add("list", "list_services", "list them", aliases=["ls"]))
    opened = add("open", "open_service", "open one in the browser, as soon as it runs")
    opened.add_argument("--print", action="store_true", help="print the address instead")
    output_option(opened)
    start = add("start", "start", "start a stopped one again; what is on /data is still there")
    output_option(start)
    stop = add("stop", "stop", "stop one; what is on /data stays")
    output_option(stop)
    delete = add("delete", "delete", "delete one; what is on /data stays", aliases=["rm"])
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    for parser in (opened, start, stop, delete):
        parser.add_argument("service", metavar="NAME", help="name, id, or how the id begins")
