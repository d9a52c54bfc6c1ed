"""The commands of `homeport`: what they are called, and in which module each is; loaded when used.

One is here: `completion`, the script by which a shell asks for words on Tab.
"""

from __future__ import annotations

import shlex
from importlib import import_module

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
)

from .options import Command, Group

EPILOG = """\b
Begin with:  homeport login URL
             homeport submit . --image IMAGE -- python train.py
             homeport logs -f NAME

\b
Exit codes:  0 done, 1 error, 2 usage, 3 not signed in, 4 not found, 5 refused or invalid,
             6 portal unreachable, 130 interrupted; with --wait or --follow the training's own.
"""
# Name: where it is, and what it does.
COMMANDS = {
    "login": ("account:login", "sign in to a portal"),
    "logout": ("account:logout", "forget the token and revoke it at the portal"),
    "whoami": ("account:whoami", "who you are, and your namespace and quota"),
    "context": ("account:context", "portals that you are signed in to"),
    "submit": ("submit:submit", "submit a training"),
    "list": ("trainings:list_jobs", "list trainings, newest first"),
    "get": ("trainings:get_job", "one training: state, reason, replicas, events"),
    "logs": ("logs:logs", "what a training printed; -f: live"),
    "stop": ("trainings:stop_jobs", "stop trainings, with time to save"),
    "suspend": ("trainings:suspend_jobs", "hold trainings, which give their room back"),
    "resume": ("trainings:resume_jobs", "queue suspended trainings again"),
    "continue": ("trainings:continue_job", "go on from one that has ended"),
    "export": ("trainings:export_job", "manifests that run one without Homeport"),
    "delete": ("trainings:delete_jobs", "delete trainings with logs and artifacts"),
    "prune": ("trainings:prune_jobs", "delete finished trainings by age"),
    "artifacts": ("artifacts:artifacts", "files that a training left"),
    "top": ("fleet:top", "what nodes have, and what trainings request and use"),
    "images": ("images:images", "images that a training may name"),
    "queue": ("fleet:queue", "what waits, its place, when it starts, and why"),
    "notebook": ("services:notebook", "notebooks: JupyterLab with your volumes"),
    "tensorboard": ("services:tensorboard", "TensorBoards on what trainings logged"),
    "doctor": ("doctor:doctor", "try whether all of it works from here"),
    "completion": ("cli:completion", "print a script that completes words on Tab"),
}


class Commands(Group):
    """All commands; help and Tab at the top load none of their modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place, _summary = COMMANDS.get(self.aliases.get(cmd_name, cmd_name), ("", ""))
        if not place:
            return None
        module, _, name = place.partition(":")
        found: click.Command = getattr(import_module(f".{module}", __package__), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_place, summary) in COMMANDS.items()])


cli = Commands(
    "homeport",
    help="Trainings, notebooks and TensorBoards of a Homeport portal.",
    epilog=EPILOG,
    aliases={"ls": "list", "rm": "delete"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from .version import own_version

        click.echo(f"homeport {own_version()}")
        context.exit()


click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)(cli)

COMPLETE_VARIABLE = "_HOMEPORT_COMPLETE"


@add_completion_class
class QuotedBash(BashComplete):
    """bash puts candidates into the line as they are, and names are other people's."""

    name = "bash"

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{shlex.quote(item.value) if item.type == 'plain' else item.value}"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a script that completes words on Tab.

    \b
    In ~/.bashrc:                   source <(homeport completion bash)
    In ~/.zshrc, behind compinit:   source <(homeport completion zsh)
    In ~/.config/fish/config.fish:  homeport completion fish | source
    """
    made = get_completion_class(shell)
    assert made is not None
    context.obj.terminal.emit(made(cli, {}, "homeport", COMPLETE_VARIABLE).source())
    return 0
