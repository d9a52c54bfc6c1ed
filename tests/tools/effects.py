"""Finds hidden effects: functions that change what they were given, and questions that change a thing.

`python -m tests.tools.effects [--of ROOT] [FOLDER ...]` prints those of some folders or files, with how
many there are of each sort, and ends with 1 when there are any:

- a: a function or method that changes a parameter other than `self`, or a part of one: it assigns to
  it, calls one of its methods that write, or hands it to a function that does;
- b: what is named like a question (is_, has_, may_) or a state (a participle) and writes anything:
  `self`, a parameter, a global, the database.

It looks at names: a parameter is followed through aliases, loops and copies of lists (`names.py`), its
class and those of attributes are known by annotations and by what `__init__` sets them to (`program.py`),
and what functions and methods of ours write is worked out until nothing new is found. Where nothing says
of which class a value is, the methods that change Python's containers count, by their names. What a
function gives back counts as new, whatever it was made of.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.tools.names import Body
from tests.tools.program import Function, Program, words

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("portal", "jobs", "tenants")
OTHERS = ("jobs/pod/", "jobs/client/")  # programs of their own; migrations are as they are

# Qualified name of a function that may, or of a class whose own state is no effect -> why.
EXCEPTIONS: Mapping[str, str] = {
    "tenants.apps.TenantsConfig.ready": "Django names it so, and calls it once",
    "tenants.people.models.SessionStore": "a browser's session is kept in the database, as rows are",
    "tenants.reconcile.blockers.find": "it reads; what changes is the client's count of its calls",
}

QUESTIONS = ("is_", "has_", "may_")
# A name is a state that begins or ends with one of these ...
PARTICIPLES = words(
    "added admitted archived asked chosen cleaned closed completed connected deleted done ended erased"
    " expected failed fenced finished given gone held joined kept lost marked missing narrowed noted"
    " observed opened parsed placed queued ready refused removed rendered rescued replaced saved seen"
    " settled started stopped stored stuck succeeded swept unfinished unseen unsettled vanished waiting"
    " wanted withdrawn"
)
# ... unless it begins with what is to be done ("mark_uploaded").
VERBS = words("begin count delete drop end forget keep kill list load look mark note put read stop")


@dataclass(frozen=True, order=True)
class Finding:
    """A function with hidden effects of one sort ("a" or "b").

    Attributes:
        changes: what it changes -> line.
    """

    path: str
    line: int
    name: str
    sort: str
    changes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        told = ", ".join(f"{name} (line {line})" for name, line in self.changes)
        return f"{self.path}:{self.line}: {self.sort}: {self.name} changes {told}"


def findings(program: Program, path_of: Mapping[str, str]) -> list[Finding]:
    """All of them, in the modules of which a path is given."""
    is_new = True
    while is_new:
        is_new = sum(_goes_on(program, function) for function in program.functions.values()) > 0
    found = []
    for qual, function in program.functions.items():
        if function.module not in path_of or qual in EXCEPTIONS:
            continue
        given = {p: at for p, at in function.writes.items() if p in function.parameters}
        given.pop(function.bound, None)
        asked = function.writes if is_question(function.node.name) else {}
        for sort, told in (("a", given), ("b", asked)):
            if told:
                name = qual.removeprefix(f"{function.module}.")
                path, line = path_of[function.module], function.node.lineno
                found.append(Finding(path, line, name, sort, tuple(sorted(told.items()))))
    return sorted(found)


def _goes_on(program: Program, function: Function) -> bool:
    """Goes through a function once more; whether it writes more than was known."""
    before = set(function.writes)
    Body(program, function).run()
    if f"{function.module}.{function.owner}" in EXCEPTIONS:
        function.writes.pop(function.bound, None)
    return set(function.writes) != before


def is_question(name: str) -> bool:
    """Whether somebody who reads the name expects that nothing changes."""
    plain = name.removeprefix("_")  # Python's own begin with another one
    first, *_, last = (*plain.split("_"), plain.rpartition("_")[2])
    is_state = first not in VERBS and bool(PARTICIPLES & {first, last})
    return plain.startswith(QUESTIONS) or (is_state and not plain.startswith("_"))


# --- folders ---
def read(root: Path, sources: Iterable[str] = SOURCES) -> tuple[Program, dict[str, str]]:
    """All our modules below a checkout's root, and the path of each."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *(f"{source}/*.py" for source in sources)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in filter(None, listed.split("\0"))
        if not name.startswith(OTHERS) and "/migrations/" not in name and (root / name).is_file()
    }
    return Program({name: (root / path).read_text() for name, path in paths.items()}), paths


def found_in(root: Path, folders: Iterable[str]) -> dict[str, list[Finding]]:
    """Findings of each folder or file."""
    program, paths = read(root)
    found = findings(program, paths)
    return {
        folder: [one for one in found if one.path == folder or one.path.startswith(f"{folder}/")]
        for folder in folders
    }


def main() -> None:
    root, folders = ROOT, sys.argv[1:]
    if folders[:1] == ["--of"]:
        root, folders = Path(folders[1]), folders[2:]
    found = found_in(root, folders or SOURCES)
    for folder, told in found.items():
        counts = [sum(one.sort == sort for one in told) for sort in "ab"]
        print(*told, f"{folder}: a {counts[0]}, b {counts[1]}", sep="\n")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
