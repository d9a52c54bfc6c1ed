"""What runs on an image's own Python: old syntax, and nothing imported but what is packed with it."""

import ast
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jobs.kinds import notebook, tensorboard
from jobs.pod.fetch import MPI_MODULES, RUNNER_MODULES, TF_MODULES, protocol_modules, write_program

PROGRAMS = (
    RUNNER_MODULES,
    MPI_MODULES,
    TF_MODULES,
    notebook.SERVED.launcher,
    tensorboard.SERVED.launcher,
)


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of all import lines, and what may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module
            yield node.module
            if node.module in {"jobs.pod", "jobs.pod.protocol"}:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("modules", PROGRAMS, ids=[modules[0] for modules in PROGRAMS])
def test_a_packed_program_stands_alone(modules: Sequence[str], tmp_path: Path) -> None:
    write_program(tmp_path / "program.py", modules)
    with zipfile.ZipFile(tmp_path / "program.py") as archive:
        names = archive.namelist()
        assert len(set(names)) == len(names) > len(modules) + len(protocol_modules())
        packed = {name.removesuffix(".py").replace("/", ".") for name in names}
        packed |= {name.removesuffix(".__init__") for name in packed}
        for name in names:
            tree = ast.parse(archive.read(name), name, feature_version=(3, 6))
            for module in imported(tree):
                is_python = module.partition(".")[0] in sys.stdlib_module_names
                assert module in packed or is_python, (name, module)


@pytest.mark.parametrize("path", protocol_modules(), ids=lambda path: path.stem)
def test_the_protocol_imports_nothing_but_the_standard_library(path: Path) -> None:
    for module in imported(ast.parse(path.read_text())):
        assert module.partition(".")[0] in sys.stdlib_module_names
