"""Values in YAML, of `--set` and of files that the portal is not asked about: read as the portal reads documents.

Nothing of a text is overwritten or read as something else without a word: names that are given twice, aliases, tags
and numbers that YAML 1.1 takes for others are refused, and what JSON has no value for, such as a date, is its text.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from typing import Any

from .exits import ClientError, usage_error

MOST_SHOWN = 5
_MAX_NUMBER_CHARS = 40
_JSON_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))
# Numbers of base 60, and of base 8 as `010`, which YAML 1.1 has, and nobody means.
_MISREAD = re.compile(r"[-+]?\d[^:]*:.+|[-+]?0[0_]*[1-7][0-7_]+")


def read(text: str, where: str) -> Any:
    """What a text says; None: it is empty.

    Args:
        where: the file or the flag that has it.

    Raises:
        ClientError: it cannot be read, or says what no document may.
    """
    return _read(text, where)[0]


def read_field(path: str, text: str) -> Any:
    """The value of `--set PATH=TEXT`.

    Raises:
        ClientError: as `read`; or a variable or a word of a command is no text, and what to write.
    """
    outer = tuple(path.split("."))
    value, reader = _read(text, f"--set {path}", outer)
    problems = []
    for full, written in reader.written:
        if not _must_be_text(full):
            continue
        quoted = json.dumps(written, ensure_ascii=False)
        write = f"--set {shlex.quote(f'{path}={quoted}')}"
        if inner := ".".join(full[len(outer) :]):
            problems.append(f"{inner} must be text, not {written or 'nothing'}; write {quoted}.")
        else:
            problems.append(f"this must be text, not {written or 'nothing'}; write {write}.")
    if problems:
        raise _refused(f"--set {path}", problems)
    return value


def _must_be_text(path: tuple[str, ...]) -> bool:
    """Whether a field is a variable or a word of a command."""
    return (path[:1] == ("env",) and len(path) == 2) or "command" in path[:-1]


class _Reader:
    """
    Attributes:
        written: path of each value that is no text, and how it is written.
    """

    def __init__(self, text: str) -> None:
        self.problems: list[str] = []
        self.written: list[tuple[tuple[str, ...], str]] = []
        self._lines = text.splitlines()

    def note(self, mark: Any, problem: str) -> None:
        """
        Args:
            mark: where it is in the text.
        """
        shown = self._lines[mark.line].strip()[:60] if mark.line < len(self._lines) else ""
        at = f"line {mark.line + 1} (“{shown}”): " if len(self._lines) > 1 else ""
        self.problems.append(f"{at}{problem}")

    def check(self, events: Iterable[Any]) -> None:
        """Notes what no document may have."""
        import yaml

        documents = 0
        for event in events:
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                self.note(event.start_mark, "there may be one document only.")
                return
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                self.note(event.start_mark, "write the value out instead of using & and *.")
            elif getattr(event, "tag", None) is not None:
                self.note(event.start_mark, "tags (!) are not taken.")

    def value_of(self, node: Any, path: tuple[str, ...]) -> Any:
        """What a node says."""
        import yaml

        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(one, (*path, str(at))) for at, one in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key, one in node.value:
                is_number = not path and key.tag in _JSON_TAGS  # no field of a body
                if is_number or not isinstance(key, yaml.ScalarNode):
                    self.note(key.start_mark, "a field's name must be text.")
                elif key.value in found:
                    self.note(key.start_mark, f"{key.value[:80]} is given twice; keep one.")
                else:
                    found[key.value] = self.value_of(one, (*path, key.value))
            return found
        return self._scalar(node, path)

    def _scalar(self, node: Any, path: tuple[str, ...]) -> Any:
        import yaml

        if node.tag not in _JSON_TAGS or len(node.value) > _MAX_NUMBER_CHARS:
            return node.value
        try:
            value = yaml.constructor.SafeConstructor().construct_object(node)
        except ValueError:  # "0b_" looks like a number to YAML 1.1, and is none
            return node.value
        self.written.append((path, node.value))
        is_text = _must_be_text(path)  # which is refused in any case, with what to write
        if isinstance(value, (int, float)) and _MISREAD.fullmatch(node.value) and not is_text:
            told = f"YAML takes {node.value} for {value}; write that, or the text in quotes."
            self.note(node.start_mark, told)
        return value


def _read(text: str, where: str, outer: tuple[str, ...] = ()) -> tuple[Any, _Reader]:
    import yaml

    reader = _Reader(text)
    value = None
    try:
        reader.check(yaml.parse(text, Loader=yaml.SafeLoader))
        if not reader.problems:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is None:
                reader.written.append((outer, ""))
            else:
                value = reader.value_of(node, outer)
    except RecursionError as error:
        raise usage_error(f"{where} is nested too deeply.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise usage_error(f"{where} is no YAML: {error}") from error
    if reader.problems:
        raise _refused(where, reader.problems)
    return value, reader


def _refused(where: str, problems: list[str]) -> ClientError:
    if len(problems) == 1:
        return usage_error(f"{where}: {problems[0]}")
    shown = [f"  {one}" for one in problems[:MOST_SHOWN]]
    if len(problems) > MOST_SHOWN:
        shown.append(f"  {len(problems) - MOST_SHOWN} more are not shown.")
    return usage_error("\n".join([f"{where}:", *shown]))
