"""The page on the command line says what the command line does."""

import argparse
import re
from collections.abc import Iterator

from homeport_client import exits
from homeport_client.parser import build
from tests.e2e.portal import ROOT

PAGE = (ROOT / "docs" / "users" / "cli.md").read_text()


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command in full, such as `artifacts list`; without other names for the same."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield " ".join(path)
        return
    for group in groups:
        for choice in group._choices_actions:
            yield from commands(
                group.choices[choice.metavar.split()[0] if choice.metavar else choice.dest],
                (*path, choice.dest.split()[0]),
            )


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def test_every_command_is_listed() -> None:
    table = PAGE.partition("## Commands")[2]
    assert sorted(re.findall(r"`([a-z ]+)`", table)) == sorted(commands(build()))


def test_every_exit_code_is_listed() -> None:
    known = {value for name, value in vars(exits).items() if name.isupper()}
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == known


def test_every_flag_of_the_page_exists() -> None:
    known = {
        option
        for parser in parsers(build())
        for action in parser._actions
        for option in action.option_strings
    }
    # What stands behind ` -- ` belongs to the program that is submitted, as a job file's command.
    said = re.sub(r" -- .*|^command: .*", "", PAGE, flags=re.MULTILINE)
    assert set(re.findall(r"(?<![\w{-])--[a-z][a-z0-9-]+", said)) - known == set()


def test_every_command_explains_itself() -> None:
    for parser in parsers(build()):
        assert parser.description, parser.prog
        for action in parser._actions:
            if action.option_strings and action.dest not in {"cpu", "memory", "gpu", "name"}:
                is_said = bool(action.help) or action.dest.startswith("ps_")
                assert is_said, f"{parser.prog} {action.option_strings}"
