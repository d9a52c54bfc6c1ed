"""Kubeflow's training operator out of its Go module: its files, and what it tells replicas.

The operator as a whole cannot be built, for it needs modules that are not to be had: the functions that
set variables are compiled by themselves, with a stand-in for the operator's package `common`.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.testcluster import binaries
from tests.tools.missing import is_missing
from tests.tools.servers import check_named

MODULE, VERSION = "github.com/kubeflow/training-operator", "v1.8.1"
SUM = "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc="
_API, _TF, _TORCH = (
    "pkg/apis/kubeflow.org/v1",
    "pkg/controller.v1/tensorflow",
    "pkg/controller.v1/pytorch",
)
_TAKEN = (
    *(f"{_API}/*.go", f"{_TF}/tensorflow.go", f"{_TF}/util.go"),
    *(f"{_TORCH}/{name}.go" for name in ("envvar", "master", "elastic")),
)
_MADE = {
    "pkg/controller.v1/common/names.go": "package common\n\n"
    'func GenGeneralName(job, rtype, index string) string { return job + "-" + rtype + "-" + index }\n',
    f"{_TF}/record.go": "package tensorflow\n\nvar Record = genTFConfigJSONStr\n",
    f"{_TORCH}/record.go": "package pytorch\n\nvar Record = setPodEnv\n",
    "main.go": Path(__file__).with_suffix(".go").read_text(),
}


def _go(
    *words: str, where: Path | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    check_named("go")
    try:
        command = [binaries.go(), *words]
    except binaries.NoBinariesError as error:
        is_missing(str(error))
    return subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **binaries.GO_SETTINGS, "GOFLAGS": "-mod=mod"},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def source() -> Path:
    """The operator's files; the test is left out where they cannot be fetched."""
    done = _go("mod", "download", "-json", f"{MODULE}@{VERSION}")
    told = json.loads(done.stdout or "{}")
    if "Dir" not in told:
        is_missing(f"{MODULE} cannot be fetched: {told.get('Error') or done.stderr}")
    assert told["Sum"] == SUM
    return Path(told["Dir"])


def tell(jobs: Sequence[Any]) -> list[dict[str, dict[str, str]]]:
    """Of each TFJob or PyTorchJob: "worker-0" -> variables that the operator sets."""
    taken = source()
    asked = re.findall(
        r"^\tk8s\.io/(?:api|apimachinery) \S+$", (taken / "go.mod").read_text(), re.MULTILINE
    )
    made = {
        **{
            str(path.relative_to(taken)): path.read_text()
            for pattern in _TAKEN
            for path in taken.glob(pattern)
            if not path.name.endswith("_test.go")
        },
        **_MADE,
        "go.mod": "\n".join([f"module {MODULE}", "go 1.22", "require (", *asked, ")", ""]),
    }
    with tempfile.TemporaryDirectory() as name:
        for path, text in made.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text)
        for words in (("mod", "tidy"), ("run", ".")):
            done = _go(*words, where=Path(name), stdin=json.dumps(jobs))
            assert done.returncode == 0, done.stderr
    found: list[dict[str, dict[str, str]]] = json.loads(done.stdout)
    return found
