"""What is typed: commands of `manage.py`, and the command line with what it then asks and prints."""

import functools
import gettext
import inspect
import json
import re
import shlex
import socket
import ssl
import tempfile
from argparse import ArgumentParser
from datetime import datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from homeport_client import amounts, doctor, watching
from homeport_client.version import own_version
from tests.jobs.client.world import Answer, Asked, CommandLine, listed, scripted
from tests.recorded import GIVEN
from tests.recorded.browsers import ROOT

CLICKS = "Options are shown by:"


def manage() -> dict[str, Any]:
    """Our commands of `manage.py`, with their options."""
    common = {tuple(row["names"]) for row in _options(BaseCommand().create_parser("manage.py", ""))}
    found = {}
    for name, app in get_commands().items():
        command = load_command_class(app, name)
        path = Path(inspect.getfile(type(command)))
        if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
            rows = _options(command.create_parser("manage.py", name))
            found[name] = [row for row in rows if tuple(row["names"]) not in common]
    return found


def _options(parser: ArgumentParser) -> list[dict[str, Any]]:
    return [
        {
            "names": action.option_strings or [action.dest],
            "takes": action.nargs,
            "default": action.default,
            "choices": action.choices and list(action.choices),
            "required": action.required,
        }
        for action in parser._actions
    ]


class Clock(datetime):
    """What the command line takes for the time; what happened in portal.yaml is some hours old."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2026, 11, 20, 13, 20, 30, tzinfo=tz)


TEXTS = {
    "src/train.py": "print(1)\n",
    "src/lib/net.py": "print(2)\n",
    "src/data/big.bin": "no\n",
    "src/.gitignore": "*.log\n/data/\n",
    "src/run.log": "no\n",
    "one.py": "print(1)\n",
    "job.yaml": "name: from file\nimage: python\ncommand: [python, x.py]\nenv: {A: file, B: file}\n"
    "replicas: {worker: {count: 4, cpu: 2}}\nsource: {dir: src}\ndeadline_s: 60\n",
    "job.json": '{"name": "j", "image": "i", "command": ["x"], "since": "2026-01-01"}\n',
    "env.txt": "# a comment\nC=from file\n\nD=x=y\n",
}
# Everything that needs no websocket.
LINES = (GIVEN / "lines.txt").read_text().splitlines()
WHOLE = {"status", "headers", "data", "body", "cut"}


def _answer(row: Any) -> Any:
    """One as the scripted portal takes it: the body alone, an Answer, or one for each time."""
    if isinstance(row, list):
        return [_answer(one) for one in row]
    if not isinstance(row, dict) or not row or not set(row) <= WHOLE:
        return row
    return Answer(**{**row, "data": row["data"].encode()} if "data" in row else row)


def _answers(rows: dict[str, Any]) -> dict[str, Any]:
    """What the portal answers, by method and path."""
    answers = {key: _answer(row) for key, row in rows.items()}
    known = answers["GET jobs/"]["results"]

    def found(asked: Asked) -> Any:
        """Those whose name or id begins as the query says."""
        query = parse_qs(urlsplit(asked.path).query)
        begins = {key: query.get(key, [""])[0] for key in ("name", "id")}
        return listed(*(r for r in known if all(r[k].startswith(v) for k, v in begins.items())))

    def submitted(asked: Asked) -> Any:
        is_refused = asked.json.get("image") == "refused"
        return Answer(rows["refused"], 400) if is_refused else Answer(known[0], 201)

    return {**answers, "GET jobs/": found, "POST jobs/": submitted}


def homeport() -> dict[str, Any]:
    """Each line: its exit code, what the portal was asked, what was printed, which tokens are kept.

    The texts of click's usage errors are left out. Of help only the options' names are kept.
    """
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        scripted() as portal,
    ):
        home = Path(folder)
        for name, text in TEXTS.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        patch.chdir(home)
        patch.setenv("HOMEPORT_TEST", "from here")
        # What the system trusts and translates is read once, and not for every line.
        patch.setattr("ssl.create_default_context", functools.cache(ssl.create_default_context))
        patch.setattr("gettext.find", functools.cache(gettext.find))
        patch.setattr(doctor, "time", SimpleNamespace(monotonic=lambda: 0.0))
        patch.setattr(watching.Changes, "wait", lambda self, identity: None)
        patch.setattr(amounts, "datetime", Clock)
        given = yaml.safe_load((GIVEN / "portal.yaml").read_text())
        run = CommandLine(home, patch)

        def plain(text: str) -> str:
            for word, name in (
                (portal.url, "PORTAL"),
                (portal.url.partition("://")[2], "PORTAL"),
                (socket.gethostname(), "<host>"),
                (folder, "<folder>"),
                (own_version(), "<version>"),
            ):
                text = text.replace(word, name)
            text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)
            text = re.sub(r"\b20[23]\d-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "<time>", text)
            return text

        def asked(row: Asked) -> list[Any]:
            said = [f"{row.method} {plain(row.path).removeprefix('/api/v1/')}"]
            token = row.headers.get("Authorization", "").removeprefix("Token ")
            if token not in {"", "hp_token"}:
                said.append(f"as {token}")
            if row.headers.get("Content-Type") == "application/json":
                return [*said, json.loads(plain(row.body.decode()))]
            return [*said, *re.findall(r'(?:file)?name="[^"]*"', row.body.decode("latin-1"))]

        for line in [*LINES, *given["elsewhere"]]:
            portal.asked.clear()
            portal.answers.clear()
            portal.answers.update(_answers(given["answers"]))
            portal.answers.update(
                {key: _answer(row) for key, row in given["elsewhere"].get(line, {}).items()}
            )
            run.sign_in(portal.url)
            kept = run.folder / "contexts.json"
            before = kept.read_text()
            stdin = TEXTS["job.json"] if "-f -" in line else "hp_secret\n"
            words = shlex.split(line.replace("PORTAL", portal.url), comments=True)
            ran = run(*words, stdin=stdin)
            row = {
                "exit": ran.code,
                "asked": [asked(one) for one in portal.asked],
                "out": plain(ran.out).splitlines(),
                "err": [] if CLICKS in ran.err else plain(ran.err).splitlines(),
                "kept": json.loads(plain(kept.read_text())) if kept.read_text() != before else [],
            }
            if "--help" in line:
                names = re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", ran.out)
                row["out"] = [" ".join(sorted(set(names)))]
            found[line] = {key: value for key, value in row.items() if value not in ([], 0)}
    return found
