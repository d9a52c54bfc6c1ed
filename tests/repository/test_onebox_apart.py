"""The embedded cluster and Homeport are apart in their tests, too: each knows of the other what it offers."""

import ast
from pathlib import Path

import pytest

from tests.lanes import ONEBOX

ROOT = Path(__file__).resolve().parents[2]
OFFERED = "onebox.testing"
# What imports another part of the embedded cluster, with the reason.
KNOWN = {
    "tests/manifests/test_tenant_manifests.py": {
        "onebox.node": "what its proxy refuses is compared with what network policies close",
    },
}
HOMEPORT = ("portal", "jobs", "tenants", "deploy", "django", "homeport_client")
# What serves tests of anything, and the list that the embedded cluster's page is made of.
SHARED = ("tests.tools", "tests.contract")


def imported(path: Path) -> set[str]:
    """The modules that a file imports; of `from a import b` both a and a.b could be one: a."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def below(module: str, *packages: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_homeports_tests_know_what_the_cluster_offers_to_tests() -> None:
    found = {
        (str(path.relative_to(ROOT)), module)
        for path in files("tests")
        for module in imported(path)
        if below(module, "onebox", "onebox_tests") and not below(module, OFFERED)
    }
    assert found == {(path, module) for path, known in KNOWN.items() for module in known}


@pytest.mark.parametrize("folder", [ONEBOX, "deploy/onebox/src"])
def test_the_clusters_tests_know_nothing_of_homeport(folder: str) -> None:
    wrong = {
        (str(path.relative_to(ROOT)), module)
        for path in files(folder)
        for module in imported(path)
        if below(module, *HOMEPORT) or (below(module, "tests") and not below(module, *SHARED))
    }
    assert not wrong
