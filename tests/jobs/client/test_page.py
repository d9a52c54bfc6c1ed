"""The page on the command line says what the command line does."""

import re
from collections.abc import Iterator

import click

from homeport_client import arena, exits
from homeport_client.cli import cli
from tests.e2e.portal import ROOT

PAGE = (ROOT / "docs" / "users" / "cli.md").read_text()


def commands(
    found: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, such as `artifacts list`."""
    if not isinstance(found, click.Group):
        yield " ".join(path), found
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        inner = found.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*path, name))


def test_every_command_is_listed() -> None:
    table = PAGE.partition("## Commands")[2]
    assert sorted(re.findall(r"`([a-z ]+)`", table)) == sorted(name for name, _ in commands())


def test_every_exit_code_is_listed() -> None:
    known = {value for name, value in vars(exits).items() if name.isupper()}
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == known


def test_every_flag_of_the_page_exists() -> None:
    known = {"--help", "--version", "--editable"}  # the last is pip's
    known.update(flag for _, one in commands() for option in one.params for flag in option.opts)
    known |= arena.ANSWERS.keys()
    words = (arena.command(word).params for word in ("tf", "pytorch"))
    known.update(flag for params in words for option in params for flag in option.opts)
    # What stands behind ` -- ` belongs to the program that is submitted, as a job file's command.
    said = re.sub(r" -- .*|^command: .*", "", PAGE, flags=re.MULTILINE)
    assert set(re.findall(r"(?<![\w{-])--[a-z][a-z0-9-]+", said)) - known == set()


def test_every_command_explains_itself() -> None:
    for name, command in commands():
        assert command.help, name
        for option in command.params:
            is_said = not isinstance(option, click.Option) or option.help or option.name == "name"
            assert is_said, f"{name} {option.opts}"
