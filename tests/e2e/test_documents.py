"""The `homeport` commands of the documents run as they stand, in their order, in a shell at a terminal."""

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal import FINAL, PASSWORD, ROOT, Portal, Rest
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

PULL_S = 300
# The portal of the documents, which is the one of this test here.
ADDRESS = "https://homeport.lab"
# An image of theirs, and one that is pulled sooner: the programs below need nothing but Python.
LARGE, SMALL = "tensorflow/tensorflow:2.21.0", "python:3.11-slim"

# What is not run, and why. Beside these only what names something by a word in capitals, such as `homeport top job NAME`.
LEFT_OUT = {
    "homeport logout": "what follows would not be signed in; test_cli.py tries it",
    "homeport doctor": "test_cli.py tries it, for a minute",
    "homeport get": "is named as a command, and takes a training",
    "homeport submit tf": "is named as a command; a line of flags follows below",
}

# What the reader has: programs of a folder, of which the first two runs of `mnist` end at once and a third goes on
# until it is suspended.
STEPS = """
import os, signal, time
role, index, place = os.environ["JOB_NAME"], os.environ["TASK_INDEX"], os.environ["LOG_DIR"]
print("server up", role, index, flush=True)
if role == "ps":
    signal.pause()
runs = [name for name in os.listdir(os.path.dirname(place)) if name.startswith("mnist-")]
checkpoint = os.path.join(place, "checkpoint-" + index)
goes_on = len(runs) == 3 and not os.path.exists(checkpoint)
open(checkpoint, "w").close()
for step in range(100, 60_000 if goes_on else 400, 100):
    print("step", step, "loss", 31 / step, flush=True)
    time.sleep(0.5)
"""
EVALUATES = """
import os, signal
if os.environ["JOB_NAME"] == "ps":
    signal.pause()
checkpoints = os.path.join(os.environ["LOG_DIR"], "checkpoints")
os.makedirs(checkpoints, exist_ok=True)
for folder, name in ((checkpoints, "last"), (os.environ["ARTIFACTS_DIR"], "result.json")):
    open(os.path.join(folder, name), "w").write("{}")
"""
TRAINS = 'import sys; print("step 100", sys.argv[1:])'


@dataclass
class Line:
    """One command of a document; of a block that shows what is printed, with that."""

    words: str
    shown: list[str] = field(default_factory=list)

    @property
    def is_run(self) -> bool:
        return self.words not in LEFT_OUT and not re.search(r"\b[A-Z]{3,}\b", self.words)


_PLACES = re.compile(
    r"^```(?P<form>sh|console)\n(?P<block>.*?)^```$"
    r"|`(?P<inline>(?:source <\()?homeport [^`|]+)`",
    re.DOTALL | re.MULTILINE,
)


def commands(document: Path, *, inline: bool) -> Iterator[Line]:
    """The lines of shell blocks, and if asked for the commands within the text, from top to bottom."""
    for found in _PLACES.finditer(document.read_text()):
        if found["inline"]:
            if inline:
                yield Line(" ".join(found["inline"].split()))
            continue
        rows = found["block"].replace("\\\n", " ").splitlines()
        if found["form"] == "sh":
            yield from (Line(row) for row in rows if row)
            continue
        line: Line | None = None
        for row in rows:
            if row.startswith("$ "):
                if line:
                    yield line
                line = Line(row[2:])
            elif line:
                line.shown.append(row)
        if line:
            yield line


def is_of_homeport(line: Line) -> bool:
    return bool(re.search(r"(^|\(|\| )homeport |^cd ", line.words))


@dataclass
class Shell:
    """Somebody at a terminal of 160 columns, who answers what is asked there.

    Attributes:
        folder: where the next line runs.
        kept: a folder of its own.
        answers: of questions, by how they begin.
    """

    folder: Path
    kept: Path
    environment: Mapping[str, str]
    answers: Mapping[str, str]

    def run(self, line: str, *, interrupt_at: str = "", timeout_s: float = PULL_S) -> str:
        """What is seen; raises AssertionError unless the line ends well, by Ctrl-C where that is asked."""
        terminal, at_program = pty.openpty()
        fcntl.ioctl(at_program, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        left = self.kept / "folder"
        text = f"set -o pipefail\n{line}\ncode=$?; pwd > {shlex.quote(str(left))}; exit $code"
        program = subprocess.Popen(
            ["setsid", "--ctty", "bash", "-c", text],
            **dict.fromkeys(("stdin", "stdout", "stderr"), at_program),
            cwd=self.folder,
            env=self.environment,
        )
        os.close(at_program)
        try:
            seen = self._follow(terminal, interrupt_at, time.monotonic() + timeout_s)
            code = program.wait(20)
        finally:
            program.kill()
            os.close(terminal)
        assert code == (130 if interrupt_at else 0), f"{line}\nends with {code}\n{seen[-4000:]}"
        self.folder = Path(left.read_text().strip())
        return seen

    def _follow(self, terminal: int, interrupt_at: str, until_s: float) -> str:
        """Answers, and all that was printed once nobody can print any more."""
        seen, answered = "", 0
        while time.monotonic() < until_s:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                part = os.read(terminal, 65536)
            except OSError:  # so a terminal ends that no program has open
                return seen
            seen += part.decode(errors="replace")
            for question, answer in self.answers.items():
                asked = re.search(re.escape(question) + r"[^\n]*: $", seen[answered:])
                if asked:
                    os.write(terminal, f"{answer}\n".encode())
                    answered = len(seen)
            if interrupt_at and interrupt_at in seen:
                os.write(terminal, b"\x03")
                interrupt_at = ""
        raise AssertionError(f"has not ended:\n{seen[-4000:]}")


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def shell(portal: Portal, ada: Rest, tmp_path: Path) -> Iterator[Shell]:
    """Ada's, with `homeport`, a `kubectl` that changes nothing, and a browser that opens nothing."""
    before = _ids(ada)
    programs = tmp_path / "bin"
    client = shlex.join([sys.executable, "-m", "homeport_client"])
    script(programs, "homeport", f'PYTHONPATH={shlex.quote(str(ROOT))} exec {client} "$@"')
    # Homeport itself has these objects on this cluster.
    kubectl = shlex.join([str(current_kubectl()), f"--kubeconfig={portal.kubeconfig}"])
    script(programs, "kubectl", f'exec {kubectl} "$@" --dry-run=server')
    script(programs, "browser", "exit 0")
    yield Shell(
        tmp_path,
        programs,
        {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "BROWSER": str(programs / "browser"),
        },
        {
            "User name": "ada",
            "Password of ada": PASSWORD,
            "Token (created at": ada.token,
            "Delete ": "y",
        },
    )
    for path in _ids(ada) - before:
        ada.call("DELETE", path)


def _ids(ada: Rest) -> set[str]:
    """The addresses of all that she has."""
    kinds = ("jobs", "notebooks", "tensorboards")
    return {
        f"{kind}/{row['id']}/"
        for kind in kinds
        for row in ada.get(f"{kind}/?page_size=200")["results"]
    }


def run_all(
    shell: Shell, lines: list[Line], portal: Portal, before: Mapping[str, Callable[[], Any]]
) -> None:
    """All that can be run; what fails is told at the end, all at once.

    Args:
        before: waits for what a person sees on a page before that command.
    """
    ran = [line for line in lines if is_of_homeport(line) and line.is_run]
    unused = before.keys() - {line.words.partition("#")[0].strip() for line in ran}
    assert not unused, unused
    problems = []
    for line in ran:
        words = line.words.partition(" #")[0].strip()
        interrupt_at = "step" if "^C" in line.shown else ""
        began_s = time.monotonic()
        try:
            if words in before:
                before[words]()
            run = line.words.replace(ADDRESS, portal.url).replace(LARGE, SMALL)
            seen = shell.run(run, interrupt_at=interrupt_at)
            print(f"$ {line.words}\n{seen}\n({time.monotonic() - began_s:.1f} s)")
        except AssertionError as error:
            problems.append(f"$ {line.words}\n{error}")
    assert not problems, "\n".join(problems)


def newest(ada: Rest, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ada.get(f"jobs/?name={name}")["results"][0]
    return found


def test_a_day_on_the_command_line(portal: Portal, ada: Rest, shell: Shell) -> None:
    page = ROOT / "docs/users/cli.md"
    folder = shell.folder / "my-project"
    folder.mkdir()
    [job_file] = re.findall(
        r"^```yaml\n(# job\.yaml\n.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
    )
    for name, text in {
        "train.py": TRAINS,
        "ps_v1.py": STEPS,
        "eval.py": EVALUATES,
        "job.yaml": job_file.replace(LARGE, SMALL),
    }.items():
        (folder / name).write_text(text)
    for name in ("old-one", "another"):
        ada.submit(
            name=name, command=["true"], replicas={"worker": {"cpu": "100m", "memory": "64Mi"}}
        )

    def is_in(*states: str) -> Callable[[], Any]:
        return lambda: wait_for(
            f"mnist is in {states}",
            lambda: newest(ada, "mnist")["state"] in states,
            timeout_s=PULL_S,
        )

    def has_files() -> None:
        is_in(*FINAL)()
        path = f"jobs/{newest(ada, 'mnist')['id']}/artifacts/"
        wait_for("its files are kept", lambda: "result.json" in ada.text(path))

    def is_stopped() -> None:
        look = lambda: [n["state"] for n in ada.get("notebooks/")["results"]] == ["stopped"]
        wait_for("the notebook is stopped", look, timeout_s=90)

    run_all(
        shell,
        list(commands(page, inline=True)),
        portal,
        {
            "homeport suspend mnist": is_in("running"),
            "homeport resume mnist": is_in("suspended"),
            "homeport continue mnist": is_in(*FINAL),
            "homeport continue mnist -- python eval.py": is_in(*FINAL),
            "homeport artifacts list mnist": has_files,
            "homeport notebook start ideas": is_stopped,
        },
    )
    results = {path.name for path in folder.rglob("results/**/*") if path.is_file()}
    assert results == {"last", "result.json"}


def test_commands_of_the_other_pages(portal: Portal, ada: Rest, shell: Shell) -> None:
    """Programs of docs/training.md are run to their end elsewhere (test_topologies.py and others)."""
    for name in ("two at once", "one more"):
        ada.submit(name=name, command=["sleep", "600"])
    researcher = list(commands(ROOT / "docs/users/researcher.md", inline=False))
    run_all(shell, researcher, portal, {})
    (shell.folder / "docs").symlink_to(ROOT / "docs")
    run_all(shell, list(commands(ROOT / "docs/training.md", inline=False)), portal, {})


def test_no_page_has_commands_that_are_not_tried_here() -> None:
    tried = {"docs/users/cli.md", "docs/users/researcher.md", "docs/training.md"}
    tried.add("docs/cluster.md")  # on nodes: tests/nodes/installed.py
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    have = {
        str(page.relative_to(ROOT))
        for page in pages
        if any(
            is_of_homeport(line) and "homeport" in line.words
            for line in commands(page, inline=False)
        )
    }
    assert have == tried
