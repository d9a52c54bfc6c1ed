"""`homeport completion`: the script by which a shell asks for words on Tab."""

from __future__ import annotations

import shlex

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
)

from .options import Command

VARIABLE = "_HOMEPORT_COMPLETE"


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
    root = context.find_root().command
    context.obj.terminal.emit(made(root, {}, "homeport", VARIABLE).source())
    return 0
