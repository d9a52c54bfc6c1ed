"""The commonest mistakes of a first training: what was to run is not there, or is not what it is taken for."""

import sys
from pathlib import Path

import pytest

from tests.jobs.pod.pods import Pod
from tests.jobs.pod.test_diagnosis import OPEN_MPI, TORCHRUN, told

PYTHON = sys.executable
IN_WORKSPACE = {
    "unix.sh": b"#!/bin/sh\nconda activate x\n",
    "calls.sh": b"#!/bin/sh\necho 1\npython3 trian.py\n",
    "run.sh": b"#!/bin/bash\r\nset -e\r\ncd /no/such\r\n",
    "options.sh": b"#!/bin/bash -x\r\necho hi\r\n",
    "if.sh": b"if true; then\r\n  echo hi\r\nfi\r\n",
    "calls_windows.sh": b"python3 train.py\r\n",
    "env.py": b"#!/usr/bin/env python3\r\nprint(1)\r\n",
    "env_options.py": b"#!/usr/bin/env python3 -u\nprint(1)\n",
    "windows.py": b"print(1)\r\nraise ValueError('x')\r\n",
    "bom.sh": b"\xef\xbb\xbf#!/bin/sh\necho hi\n",
    "none.sh": b"echo hi\n",
    "other.sh": b"#!/no/such/sh -e\necho hi\n",
    "train.py": b"",
    "train.ipynb": b'{\n "cells": [{"execution_count": null}]\n}\n',
    "pkg/__init__.py": b"",
    "needs/__init__.py": b"import no_such_thing\n",
    "train.sh": b"#!/bin/sh\npython3 train.py\n",
    "calls_path.sh": b"echo 1\nsrc/train.sh\n",
    "plain": b"#!/bin/sh\necho hi\n",
    "options": b"#! /usr/bin/env -S python3 -u\nprint(1)\n",
    "plain.bash": b"echo hi\n",
    "plain.pl": b"print 1;\n",
    "both": b"#!/bin/bash\r\necho hi\r\n",
    "open.py": b"x = 1\nprint('a'\ny = 1\n",
    "train_open.py": b"import open\n",
    "calls.py": b"import subprocess\nsubprocess.run(['no-such-ffmpeg', '-i', 'x'])\n",
    "calls_path.py": b"import subprocess\nsubprocess.run(['./tools/x'])\n",
    "nothing": b"\x7fELF",
}
NO_FILE = "[Errno 2] No such file or directory"
# The command, and the reason with words that it names.
MISTAKES: list[tuple[list[str], str, str]] = [
    # What an interpreter was told to run.
    ([PYTHON, "trian.py"], "script_missing", f"trian.py': {NO_FILE}"),
    ([PYTHON, "/code/missing.py"], "script_missing", "can't open file '/code/missing.py': "),
    ([PYTHON, "-m", "mypkg.train"], "script_missing", "specification for 'mypkg.train' (ModuleNotFoundError: No"),
    ([PYTHON, "-m", "pkg.train"], "script_missing", "No module named pkg.train"),
    ([PYTHON, "-m", "pkg"], "script_missing", "No module named pkg.__main__; 'pkg' is a package"),
    ([PYTHON, "-m", "needs.train"], "missing_module", "No module named 'no_such_thing'"),
    ([PYTHON, "."], "script_missing", "can't find '__main__' module in"),
    (["bash", "start.sh"], "script_missing", "bash: start.sh: No such file or directory"),
    (["dash", "start.sh"], "script_missing", "cannot open start.sh: No such file"),
    (["perl", "t.pl"], "script_missing", "Can't open perl script \"t.pl\": No such file or directory"),
    (["sh", "calls.sh"], "script_missing", f"trian.py': {NO_FILE}"),
    # ... and a path that a shell, or what stands before a command, was told to run.
    (["./run_it.sh"], "script_missing", "there is no ./run_it.sh in "),
    (["/no/such/x"], "script_missing", "there is no /no/such/x in this image"),
    (["sh", "-c", "./run_it.sh"], "script_missing", "sh: 1: ./run_it.sh: not found"),
    (["bash", "-c", "/no/such/x"], "script_missing", "/no/such/x: No such file or directory"),
    (["bash", "-c", "exec src/train.sh"], "script_missing", "src/train.sh: No such file or directory"),
    (["sh", "-c", "exec ./run_it.sh"], "script_missing", "exec: ./run_it.sh: not found"),
    (["bash", "calls_path.sh"], "script_missing", "calls_path.sh: line 2: src/train.sh: No such file or directory"),
    (["dash", "calls_path.sh"], "script_missing", "calls_path.sh: 2: src/train.sh: not found"),
    (["timeout", "9", "./run_it.sh"], "script_missing", "./run_it.sh"),
    (["env", "./run_it.sh"], "script_missing", "./run_it.sh"),
    (["nice", "./run_it.sh"], "script_missing", "./run_it.sh"),
    # ... and to read into itself, which may be a redirection, too.
    (["bash", "-ec", ". env.sh; echo 1"], "script_missing", "bash: line 1: env.sh: No such file or directory"),
    (["bash", "-ec", "source conf/train.sh"], "script_missing", "conf/train.sh: No such file or directory"),
    (["dash", "-c", ". ./env.sh"], "script_missing", "dash: 1: .: cannot open ./env.sh: No such file"),
    (["dash", "-c", ". env.sh"], "script_missing", "dash: 1: .: env.sh: not found; sh looks for it in PATH, so write . ./env.sh"),
    (["bash", "-ec", "source venv/bin/activate"], "file_missing", "venv/bin/activate: No such file or directory"),
    (["bash", "-ec", "cat < data/x"], "file_missing", "bash: line 1: data/x: No such file or directory"),
    (["dash", "-c", "cat < data/x"], "file_missing", "dash: 1: cannot open data/x: No such file"),
    (["bash", "-ec", "cd project"], "file_missing", "bash: line 1: cd: project: No such file or directory"),
    (["dash", "-ec", "cd project"], "file_missing", "dash: 1: cd: can't cd to project"),
    # It is there, and cannot be run as it stands.
    (["train.py"], "script_missing", "train.py is looked for in PATH only; start it by python train.py"),
    (["train.sh"], "script_missing", "train.sh is looked for in PATH only; start it by ./train.sh"),
    (["./pkg"], "script_missing", "./pkg is a folder"),
    (["bash", "-c", "./pkg"], "script_missing", "./pkg: Is a directory"),
    (["./train.py"], "command_not_executable", "./train.py cannot be executed: Permission denied; start it by its interpreter: python ./train.py"),
    (["./plain"], "command_not_executable", "start it by its interpreter: sh ./plain"),
    (["./options"], "command_not_executable", "start it by its interpreter: python3 ./options"),
    (["./plain.bash"], "command_not_executable", "start it by its interpreter: bash ./plain.bash"),
    (["./plain.pl"], "command_not_executable", "start it by its interpreter: perl ./plain.pl"),
    (["./both"], "command_not_executable", r"bash ./both, and the lines of ./both end in \r\n"),
    (["./nothing"], "command_not_executable", "./nothing cannot be executed: Permission denied; make it executable (chmod +x)"),
    # The whole command as one word, and what only a shell knows.
    (["python train.py"], "command_not_found", "there is no program “python train.py”; write its words apart, as python and train.py"),
    (["cd", "pkg"], "command_not_found", "cd is a word of shells and no program; write the line behind bash -c"),
    (["source", "env.sh"], "command_not_found", "source is a word of shells and no program"),
    (["no-such-program"], "command_not_found", "there is no no-such-program in the folders of PATH, nor in the code"),
    # A command within a shell.
    (["sh", "-c", "echo 1; conda activate x"], "shell_command_missing", "sh: 1: conda: not found"),
    (["bash", "-c", "conda activate x"], "shell_command_missing", "bash: line 1: conda: command not found"),
    (["sh", "unix.sh"], "shell_command_missing", "unix.sh: 2: conda: not found"),
    (["bash", "unix.sh"], "shell_command_missing", "unix.sh: line 2: conda: command not found"),
    (["timeout", "9", "conda"], "shell_command_missing", "failed to run command"),
    (["sh", "-c", f"conda; {PYTHON} -c 'raise ValueError(3)'"], "exit_code", "ValueError: 3"),
    (["sh", "-c", "exit 127"], "exit_code", ""),
    (["bash", "-c", "./train.py"], "command_not_executable", "./train.py: Permission denied"),
    # Line ends, first lines.
    (["./run.sh"], "windows_lines", r"the lines of ./run.sh end in \r\n, so that its first line names /bin/bash\r"),
    (["bash", "run.sh"], "windows_lines", r"run.sh: line 3: cd: $'/no/such\r': No such file"),
    (["dash", "run.sh"], "windows_lines", r"the lines of run.sh end in \r\n"),
    (["./options.sh"], "windows_lines", r"the lines of ./options.sh end in \r\n"),
    (["bash", "if.sh"], "windows_lines", r"the lines of if.sh end in \r\n; if.sh: line 4: syntax error: unexpected end of file"),
    (["dash", "if.sh"], "windows_lines", r"the lines of if.sh end in \r\n"),
    (["sh", "calls_windows.sh"], "windows_lines", r"the lines of calls_windows.sh end in \r\n"),
    (["./env.py"], "windows_lines", r"python3\r"),
    (["sh", "-c", "./env.py"], "windows_lines", r"python3\r"),
    (["./env_options.py"], "shell_command_missing", "python3 -u"),
    ([PYTHON, "windows.py"], "exit_code", "ValueError: x"),
    (["./bom.sh"], "command_not_executable", "a byte order mark stands before its #!"),
    (["./none.sh"], "command_not_executable", "its first line names no interpreter"),
    (["sh", "-c", "echo 1; ./run.sh"], "windows_lines", r"the lines of ./run.sh end in \r\n, so that its first line names /bin/bash\r"),
    (["sh", "-c", "echo 1; ./other.sh"], "command_not_found", "the interpreter /no/such/sh, which its first line names, does not"),
    (["timeout", "9", "./other.sh"], "command_not_found", "the interpreter /no/such/sh, which its first line names, does not"),
    (["./other.sh"], "command_not_found", "the interpreter /no/such/sh, which its first line names, does not"),
    # What is no program is in the code, and where.
    ([PYTHON, "open.py"], "syntax_error", "open.py, line 2: SyntaxError: '(' was never closed"),
    ([PYTHON, "train_open.py"], "syntax_error", "open.py, line 2: SyntaxError: '(' was never closed"),
    ([PYTHON, "calls.py"], "shell_command_missing", "FileNotFoundError: [Errno 2] No such file or directory: 'no-such-ffmpeg'"),
    ([PYTHON, "calls_path.py"], "file_missing", "FileNotFoundError: [Errno 2] No such file or directory: './tools/x'"),
    # The last words of shells and tools.
    (["bash", "-c", "set -u; echo $LR"], "exit_code", "bash: line 1: LR: unbound variable"),
    (["dash", "-c", "set -u; echo $LR"], "exit_code", "dash: 1: LR: parameter not set"),
    (["make", "model"], "exit_code", "make: *** No rule to make target 'model'."),
    (["sleep", "soon"], "exit_code", "sleep: invalid time interval"),
    (["ls", "--no-such"], "exit_code", "ls: unrecognized option '--no-such'"),
    # Notebooks.
    ([PYTHON, "train.ipynb"], "notebook_as_script", "train.ipynb: NameError: name 'null' is not defined"),
    (["sh", "-c", f"{PYTHON} train.ipynb"], "notebook_as_script", "train.ipynb: NameError"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "reason", "words"), MISTAKES, ids=lambda value: str(value)[-40:]
)
def test_the_commonest_mistakes_are_named(
    pod: Pod, command: list[str], reason: str, words: str
) -> None:
    for name, content in IN_WORKSPACE.items():
        path: Path = pod.root / "workspace" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name.endswith(".sh") or name.startswith("env") else 0o644)
    pod.environ["PATH"] = f"{Path(PYTHON).parent}:{pod.environ['PATH']}"
    pod.config["command"] = command
    assert pod.run()[0] != 0
    said = pod.message.get("last_words", "") if reason == "exit_code" else pod.message["text"]
    assert (pod.message["reason"], words in said) == (reason, True), pod.message
    assert str(Path(PYTHON).parent) + ":" not in said  # PATH


# As they print them: Open MPI 4.1 and 5.0, MPICH 4's Hydra, Rscript, node 20, ruby, busybox 1.35, zsh 5.9, mksh, tcsh, PHP, Lua.
WITHOUT_THEM_HERE = {
    "Fatal error: cannot open file 'x.R': No such file or directory": "script_missing",
    "Error: Cannot find module '/workspace/x.js'\n" + "    at Module._load (node:internal)\n" * 20: "script_missing",
    "Error: Cannot find module 'lodash'\nRequire stack:\n- /workspace/x.js\n" + "    at x\n" * 20: "missing_module",
    "ruby: No such file or directory -- x.rb (LoadError)": "script_missing",
    "sh: can't open 'x.sh': No such file or directory": "script_missing",
    "sh: conda: not found": "shell_command_missing",
    "zsh:1: command not found: conda": "shell_command_missing",
    "run.sh:2: command not found: conda": "shell_command_missing",
    "conda: Command not found.": "shell_command_missing",
    "E: mksh: conda: inaccessible or not found": "shell_command_missing",
    "zsh:.:1: no such file or directory: ./env.sh": "script_missing",
    "zsh: can't open input file: missing.sh": "script_missing",
    "sh: ./run.sh: not found": "script_missing",
    "run.sh: line 2: src/train.sh: not found": "script_missing",
    "sh: exec: line 0: ./run.sh: not found": "script_missing",
    "sh: .: line 0: can't open './env.sh': No such file or directory": "script_missing",
    "E: run_it.sh[2]: src/train.sh: inaccessible or not found": "script_missing",
    "src/train.sh: Command not found.": "script_missing",
    "env: can't execute './run.sh': No such file or directory": "script_missing",
    "env: \u2018./run.sh\u2019: No such file or directory": "script_missing",
    "xargs: ./run.sh: No such file or directory": "script_missing",
    "setsid: failed to execute ./run.sh: No such file or directory": "script_missing",
    "Could not open input file: x.php": "script_missing",
    "lua5.4: cannot open x.lua: No such file or directory": "script_missing",
    "sh: can't open data/x: no such file": "file_missing",
    "zsh:1: no such file or directory: data/x": "file_missing",
    "zsh:cd:1: no such file or directory: nodir": "file_missing",
    "sh: cd: line 0: can't cd to nodir: No such file or directory": "file_missing",
    "bash: ./x.sh: /bin/bash^M: bad interpreter: No such file or directory": "windows_lines",
    "[proxy:0:0@w-0] HYDU_create_process (utils/launch/launch.c:75): execvp error on file ./x (No such file or directory)":
        "script_missing",
    "/usr/bin/python3: can't open file '/workspace/trian.py': [Errno 2] No such file or directory\n" + TORCHRUN:
        "script_missing",
    "/usr/bin/python3: can't open file '/workspace/trian.py': [Errno 2] No such file or directory\n" + OPEN_MPI:
        "script_missing",
}  # fmt: skip


@pytest.mark.parametrize("output", WITHOUT_THEM_HERE)
def test_other_interpreters_words_are_known(output: str) -> None:
    found = told(output)
    assert found is not None
    assert found.code == WITHOUT_THEM_HERE[output]
    assert output.startswith(found.detail)


MISSED = "run.sh: line 2: nvidia-smi: command not found\n"
# What a shell went on behind: an output, the exit code, and the cause.
WENT_ON = [
    (MISSED + "run.sh: line 3: 41 Killed python train.py\n", 137, "exit_code"),
    (MISSED + "epoch 1\nLoss is nan\n", 1, "exit_code"),
    ("bash: /home/ada/.bashrc: No such file or directory\nepoch 1\nLoss is nan\n", 1, "exit_code"),
    (MISSED + "cleaning up\n", 127, "shell_command_missing"),
    (MISSED, 1, "shell_command_missing"),
    (MISSED, 137, "exit_code"),
    ("zsh:1: no such file or directory: src/train.sh\n", 127, "script_missing"),
    ("run.sh:2: no such file or directory: src/train.sh\nover\n", 127, "script_missing"),
    ("run.sh: line 2: src/train.sh: No such file or directory\nover\n", 127, "script_missing"),
    ("run.sh: line 2: src/train.sh: No such file or directory\nover\n", 1, "exit_code"),
    ("run.sh: 2: src/train.sh: not found\nLoss is nan\n", 2, "exit_code"),
    ("src_it.sh: .: line 3: env.sh: not found\n", 2, "script_missing"),
    ("run.sh: 2: cannot open data/x: No such file\nLoss is nan\n", 2, "exit_code"),
    ("run.sh: line 2: data/x: No such file or directory\nepoch 1\nLoss is nan\n", 1, "exit_code"),
    ("run.sh: line 2: data/x: No such file or directory\n", 137, "exit_code"),
    ("zsh:1: permission denied: ./run.sh\n", 126, "command_not_executable"),
    ("bash: start.sh: No such file or directory\nover\n", 127, "script_missing"),
    ("python: can't open file '/w/x.py': [Errno 2] No such file or directory\nover\n", 2, "script_missing"),
    ("Error: Cannot find module '/w/x.js'\n" + "    at x\n" * 9, 1, "script_missing"),
    ("python: can't open file '/w/x.py': [Errno 2] No such file or directory\n[1/1] over\n", 137, "exit_code"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "exit_code", "code"), WENT_ON)
def test_what_a_shell_did_not_find_is_the_cause_only_at_the_end(
    output: str, exit_code: int, code: str
) -> None:
    """Or where the exit code is that of what was not found."""
    found = told(output, exit_code)
    assert (found.code if found else "exit_code") == code
