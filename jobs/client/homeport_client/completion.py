"""`homeport completion`: the script by which a shell asks for words on Tab."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .options import Command

VARIABLE = "_HOMEPORT_COMPLETE"


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
