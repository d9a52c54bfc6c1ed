"""Renders `deploy/kubernetes` as a site does: in a copy, whose files docs/cluster.md writes."""

import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.tools.kubectls import Said, ask, current_kubectl

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
Object = dict[str, Any]


def blocks(title: str, page: str = PAGE) -> list[str]:
    """The commands of one section of docs/cluster.md, or of another page, in order."""
    _, _, rest = page.partition(f"\n## {title}\n")
    section = rest.partition("\n## ")[0]
    found = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no commands below {title}"
    return found


def checkout(folder: Path) -> Path:
    """A copy of what `kubectl apply -k` reads, without files of a site."""
    shutil.copytree(
        ROOT / "deploy",
        folder / "deploy",
        ignore=shutil.ignore_patterns("*.env", "tls.*", "gate.*", "*.pem", "pull.json", "onebox"),
    )
    return folder


def run(checkout: Path, command: str) -> None:
    """A block of the page, as its reader runs it."""
    subprocess.run(
        ["sh", "-ec", command], cwd=checkout, check=True, capture_output=True, timeout=60
    )


def kustomize(folder: Path, program: str = "") -> Said:
    return ask([program or current_kubectl(), "kustomize", str(folder)])


def objects(folder: Path, program: str = "") -> list[Object]:
    """What it renders."""
    said = kustomize(folder, program)
    assert said.is_done, said.errors
    return [found for found in yaml.safe_load_all(said.out) if found]


def pods(documents: list[Object]) -> dict[str, Object]:
    """`Kind/name` -> spec of its pods, of everything that makes pods; hashes of names cut off.

    What a claim of a StatefulSet would be is an empty folder.
    """
    found = {}
    for one in copy.deepcopy(documents):
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            name = re.sub(r"-[a-z0-9]{10}$", "", one["metadata"]["name"])
            pod = found[f"{one['kind']}/{name}"] = spec["template"]["spec"]
            for claim in spec.get("volumeClaimTemplates", ()):
                pod["volumes"].append({"name": claim["metadata"]["name"], "emptyDir": {}})
    return found
