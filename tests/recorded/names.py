"""Names that clusters, pods and laptops know, found in the sources wherever they stand."""

import re
import subprocess
from typing import Any

from jobs.rules.reasons import ROWS
from tests.recorded.browsers import ROOT

FOLDERS = ("portal", "jobs", "tenants", "templates")
_LABEL = re.compile(r"\b(?:homeport\.dev|(?:app|batch)\.kubernetes\.io)/[A-Za-z-]+")
# Of pods and of the command line; the portal's own are settings.
_VARIABLE = re.compile(
    r"""["']((?:HOMEPORT|GATE|APP|JOB|TASK|TF|XDG|NO|ARTIFACTS|DATA|LOG)_(?!DIRS)[A-Z_]+)["']"""
)
_EXIT_CODE = re.compile(r"^EXIT_[A-Z_]+ = \(?\s*(\d+)", re.MULTILINE)


def names() -> dict[str, Any]:
    """Labels and annotations, variables, exit codes of programs in pods, and codes of reasons."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    text = "\n".join(
        (ROOT / name).read_text()
        for name in listed.splitlines()
        if name.endswith((".py", ".j2")) and "/migrations/" not in name and (ROOT / name).is_file()
    )
    return {
        "labels": sorted(set(_LABEL.findall(text))),
        "variables": sorted(set(_VARIABLE.findall(text))),
        "exit codes": sorted({int(code) for code in _EXIT_CODE.findall(text)}),
        "reasons": sorted(ROWS),
    }
