"""A migration that landed has run in somebody's database: it never changes and needs no code of ours.

A new one is added here by the commit that brings it, with the line that the test shows. Until
then it may be made anew as often as you like; afterwards a change of models is the next migration.
"""

import ast
import hashlib
from pathlib import Path

from tests.repository.test_documents import ROOT

# The SHA-256 of each file's bytes.
LANDED = {
    "jobs/migrations/0001_initial.py": "3d4821e740e01f0578f621678905292a10164916c0a6be5ad5c0db5b6bc7326f",
    "jobs/migrations/0002_initial.py": "d759862ba4f96e806bfc300616ad5d092a6f4211b1a319405e3c5e6d98e038b8",
    "jobs/migrations/0003_segment_sizes.py": "645953a627ede818bdbb612ea895a0933193cc2bd32fcbaa094d67397104dc03",
    "portal/migrations/0001_initial.py": "7be889019828ee90114542b717981c8feab42b779f44a4d251fb8015bbd190d7",
    "tenants/migrations/0001_initial.py": "33a4baee0bf5cc07de10dd3940e12cf2ea887ee294eaba9a31cc191ba83aa106",
}
OURS = {"deploy", "jobs", "portal", "tenants", "tests"}


def migrations() -> list[Path]:
    return sorted(ROOT.glob("*/migrations/[0-9]*.py"))


def test_a_landed_migration_never_changes() -> None:
    found = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in migrations()
    }
    changed = [name for name in LANDED if name in found and found[name] != LANDED[name]]
    assert not changed, "put back what landed, and say the change in a new migration"
    assert not LANDED.keys() - found.keys(), "databases still know it: put it back"
    new = "".join(f'    "{name}": "{found[name]}",\n' for name in found if name not in LANDED)
    assert not new, f"add to LANDED, as the last thing before it lands:\n{new}"


def test_migrations_import_nothing_that_may_change() -> None:
    found = []
    for path in migrations():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "" if node.level == 0 else "." * node.level]
            found += [
                f"{path.relative_to(ROOT)}: {name}"
                for name in names
                if name.startswith(".") or name.partition(".")[0] in OURS
            ]
    assert not found
