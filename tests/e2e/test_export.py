"""An exported training runs by kubectl alone: its cluster is there, and Homeport is not."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy import image
from onebox.testing import start
from tests.e2e.portal import ROOT, Portal, global_steps, kubectl, new_home
from tests.e2e.test_first_training import BODY
from tests.jobs.pod.git_server import GitServer
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

COMPLETE_S = 480  # TensorFlow's image may be pulled first


def trust(installation: Portal, pem: bytes) -> None:
    """Its image for fetching code takes certificates of this authority."""
    trusted = installation.home.parent / "trusted"
    trusted.mkdir()
    (trusted / "ca.crt").write_bytes(pem)
    images = installation.home / "onebox/node/images"
    images.mkdir(parents=True)
    shipped = image.definition(image.REFERENCES[0]).rstrip()
    assert shipped.endswith(" }]")
    mount = f', {{ source = {json.dumps(str(trusted))}, path = "/opt/trusted" }}]\n'
    (images / "10-trusted.toml").write_text(
        shipped.removesuffix("]") + mount + 'env = { SSL_CERT_FILE = "/opt/trusted/ca.crt" }\n'
    )


def test_an_export_runs_without_homeport_and_one_line_removes_it(tmp_path: Path) -> None:
    git_server = GitServer(tmp_path)
    commit = git_server.commit(**{"src__ps_v1.py": (ROOT / "docs/examples/ps_v1.py").read_text()})
    portal = Portal(new_home("export"))
    trust(portal, git_server.ca_file.read_bytes())
    try:
        portal.start()
        ada = portal.sign_in("ada")
        namespace = ada.tenant()["namespace"]
        # This machine, as pods reach it; nobody serves there while Homeport runs.
        source = {"git": "https://10.244.0.1:8000/project/.git", "ref": commit, "path": "src"}
        job = ada.submit(**BODY, source=source)
        text = ada.text(f"jobs/{job['id']}/export/?as=kubernetes")
        assert ada.call("DELETE", f"jobs/{job['id']}/").ok
        of_training = ("-n", namespace, "get", "jobs,deployments,services,pods", "-o", "name")
        wait_for("it is gone", lambda: not kubectl(portal, *of_training).strip(), timeout_s=120)
        assert portal.stop() == 0
        forward = f"{git_server.server.server_port}:8000"
        with contextlib.closing(start(portal.home / "onebox", forward=forward)):
            apply = [current_kubectl(), f"--kubeconfig={portal.kubeconfig}", "apply", "-f", "-"]
            subprocess.run(apply, input=text, text=True, check=True, timeout=60)
            jobs = ("-n", namespace, "get", "jobs", "-o")
            ends = ("jsonpath={.items[*].status.conditions[*].type}",)
            wait_for(
                "the workers have ended",
                lambda: (
                    len(re.findall(r"\b(Complete|Failed)\b", kubectl(portal, *jobs, *ends))) == 2
                ),
                timeout_s=COMPLETE_S,
                interval_s=1,
            )
            logs = ""
            for worker in kubectl(portal, *jobs, "name").split():
                logs += kubectl(portal, "-n", namespace, "logs", worker, "--all-containers")
            assert f"the code is commit {commit[:12]}" in logs
            assert "Failed" not in kubectl(portal, *jobs, *ends), logs
            assert max(global_steps(logs)) >= 1990
            [line] = re.findall(r"^# Remove it: kubectl (.*)$", text, re.MULTILINE)
            kubectl(portal, *shlex.split(line))
            wait_for("nothing is left", lambda: not kubectl(portal, *of_training).strip())
    finally:
        git_server.close()
        portal.kill_everything()
        shutil.rmtree(portal.home.parent, ignore_errors=True)
