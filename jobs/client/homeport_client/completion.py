"""Completes words on Tab in bash, zsh and fish.

The shells' scripts are a few lines: they ask `homeport __complete WORDS...` (the last word is the one
to complete), which walks the parser and asks the portal for names of trainings, for a second at most.
"""

from __future__ import annotations

import argparse
import sys

from . import contexts
from .parser import build
from .rest import Rest
from .sanitize import one_line
from .session import Session
from .terminal import Terminal

BASH = """\
# homeport: completion for bash. In ~/.bashrc:  source <(homeport completion bash)
_homeport() {
    local IFS=$'\\n'
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=($(homeport __complete "${words[@]}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == __files__ ]]; then
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
        compopt -o filenames 2>/dev/null
        return
    fi
    local at
    for at in "${!COMPREPLY[@]}"; do
        COMPREPLY[at]=$(printf '%q' "${COMPREPLY[at]}")
    done
}
complete -F _homeport homeport
"""
ZSH = """\
#compdef homeport
# homeport: completion for zsh. In ~/.zshrc, behind compinit:  source <(homeport completion zsh)
_homeport() {
    local -a found
    found=("${(@f)$(homeport __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${#found} -eq 1 && $found[1] == __files__ ]]; then
        _files
    else
        compadd -- $found
    fi
}
compdef _homeport homeport
"""
FISH = """\
# homeport: completion for fish. In ~/.config/fish/config.fish:  homeport completion fish | source
function __homeport_complete
    set -l words (commandline -opc) (commandline -ct)
    homeport __complete $words[2..-1] 2>/dev/null | string match -v __files__
end
complete -c homeport -n 'test (count (commandline -opc)) -eq 1' -f -a '(__homeport_complete)'
complete -c homeport -n 'test (count (commandline -opc)) -gt 1' -a '(__homeport_complete)'
"""
FILES = "__files__"  # the shell completes file names itself
NAMES = 100
_FILE_OPTIONS = {"--file", "-f", "--env-file", "--ca-file", "--directory", "-d"}
_STATES = ["queued", "starting", "running", "stopping", "succeeded", "failed", "stopped"]


def script(session: Session) -> int:
    """The command `completion`."""
    session.terminal.out.write({"bash": BASH, "zsh": ZSH, "fish": FISH}[session.options.shell])
    return 0


def candidates(words: list[str]) -> list[str]:
    """What the last word could become, given the words before it."""
    *before, word = words or [""]
    if "--" in before:
        return [FILES]
    parser = build()
    names: list[str] = []
    previous = ""
    for given in before:
        following = _subparser(parser, given)
        if following is not None:
            parser = following
            names.append(given)
        previous = given
    found = _values(parser, names, previous, word)
    if found == [FILES]:
        return found
    return sorted({one_line(text) for text in found if text.startswith(word)})


def _subparser(parser: argparse.ArgumentParser, word: str) -> argparse.ArgumentParser | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found: argparse.ArgumentParser | None = action.choices.get(word)
            return found
    return None


def _values(
    parser: argparse.ArgumentParser, names: list[str], previous: str, word: str
) -> list[str]:
    options = {option: action for action in parser._actions for option in action.option_strings}
    action = options.get(previous)
    if action is not None and action.nargs != 0:
        if action.choices:
            return [str(choice) for choice in action.choices]
        if previous in _FILE_OPTIONS and names[:1] != ["logs"]:
            return [FILES]
        if previous == "--context":
            return _contexts()
        return _STATES if previous == "--state" else []
    if word.startswith("-"):
        return list(options)
    for action in parser._actions:
        if action.option_strings:
            continue
        if isinstance(action, argparse._SubParsersAction):
            return [choice for choice in action.choices if choice != "__complete"]
        if action.dest in {"job", "jobs"}:
            return _job_names(word)
        if action.dest == "service":
            return _service_names(names[0])
        if action.dest == "name" and names == ["context", "use"]:
            return _contexts()
        if action.choices:
            return [str(choice) for choice in action.choices]
        if action.dest == "path":
            return [FILES]
    return []


def _contexts() -> list[str]:
    folder = contexts.config_folder()
    return list(contexts.load(folder, Terminal(err=sys.stderr)).by_name)


def _rest() -> Rest:
    saved = contexts.load(contexts.config_folder(), Terminal(err=sys.stderr))
    _name, context = contexts.choose(saved, None)
    return Rest(context.url, context.token, ca_file=context.ca_file, is_hasty=True)


def _job_names(word: str) -> list[str]:
    rows, _count = _rest().page("jobs/", {"page_size": NAMES, "name": word or None})
    return [str(row.get("name", "")) for row in rows]


def _service_names(name: str) -> list[str]:
    kind = {"notebook": "notebooks", "tensorboard": "tensorboards"}[name]
    rows, _count = _rest().page(f"{kind}/", {"page_size": NAMES})
    return [str(row.get("name", "")) for row in rows]
