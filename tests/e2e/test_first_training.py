"""The main job in a real browser: a distributed TensorFlow training with live logs."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import ROOT, Portal, Rest, global_steps, kubectl
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

SCRIPT = ROOT / "docs" / "examples" / "ps_v1.py"
IMAGE = "tensorflow/tensorflow:2.21.0"
BODY = {
    "name": "mnist",
    "topology": "tf-ps",
    "image": IMAGE,
    "command": ["python", "ps_v1.py", "--log_dir={{log_dir}}"],
    "cluster_flags": True,
    "replicas": {
        "worker": {"count": 2, "cpu": "1", "memory": "2Gi"},
        "ps": {"count": 1, "cpu": "1", "memory": "1Gi"},
    },
}
# Pulling the image for the first time is part of this: a minute and a half on two cores.
FIRST_TRAINING_S = 240
# From the program's last line to the outcome. A second or two, but after a pull the disk may still
# have a gigabyte and a half to write, and whoever syncs a file then waits for all of it.
ENDED_S = 240


def test_a_distributed_training_from_upload_to_artifacts(
    portal: Portal, ada: Rest, page_of: Callable[..., Page], tmp_path: Path
) -> None:
    page = page_of("ada")
    page.get_by_role("link", name="New training").first.click()
    page.get_by_label("Name", exact=True).fill("mnist by hand")
    page.locator("input[type=file]").set_input_files(SCRIPT)
    expect(page.locator("[data-upload]")).to_contain_text("ps_v1.py")
    page.locator("#command").fill("python ps_v1.py --log_dir={{log_dir}}")
    page.get_by_label("Several machines").check()
    page.get_by_label("Parameter servers and workers").check()
    for flag in ("ps_hosts", "worker_hosts", "job_name", "task_index"):
        page.get_by_label(f"--{flag}", exact=True).check()
    page.locator("#image").fill(IMAGE)
    page.locator("[name='replicas.worker.count']").fill("2")
    page.locator("[name='replicas.worker.memory']").fill("2Gi")
    page.locator("[name='replicas.ps.count']").fill("1")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/trainings/[0-9a-f-]{36}/$"))
    job = ada.get(f"jobs/{page.url.rstrip('/').rsplit('/', 1)[-1]}/")

    log = page.get_by_role("log")
    ada.wait(job, "running", timeout_s=FIRST_TRAINING_S)
    # All three replicas speak while they run.
    for line in ("server up ps 0", "server up worker 0", "server up worker 1"):
        expect(log).to_contain_text(line, timeout=180_000)  # TensorFlow's own start
    expect(page.locator("[data-state=running]").first).to_be_visible(timeout=30_000)
    expect(log).to_contain_text("step ", timeout=180_000)
    if "PICTURES" in os.environ:  # the README's picture is taken here: PICTURES=docs/pictures
        page.screenshot(path=Path(os.environ["PICTURES"]) / "training.png")
    # A late worker waits up to half a minute inside TensorFlow (SessionManager.recovery_wait_secs).
    expect(log).to_contain_text("done task 0", timeout=120_000)
    expect(log).to_contain_text("done task 1", timeout=120_000)
    done = ada.wait(job, "succeeded", timeout_s=ENDED_S)
    expect(page.locator("[data-state=succeeded]").first).to_be_visible(timeout=30_000)

    namespace = ada.tenant()["namespace"]
    assert ada.exit_codes(done) == [0, 0]
    wait_for(
        "the parameter server is gone",
        lambda: "-ps-" not in kubectl(portal, "-n", namespace, "get", "deploy,svc,pods"),
        timeout_s=60,
    )

    # Archive and artifacts are there when no pod is.
    kubectl(portal, "-n", namespace, "delete", "jobs", "--all", "--wait=true")
    wait_for(
        "no pod is left", lambda: not kubectl(portal, "-n", namespace, "get", "pods", "-o", "name")
    )
    page.reload()
    for line in ("server up ps 0", "done task 0", "done task 1"):
        expect(page.get_by_role("log")).to_contain_text(line, timeout=30_000)
    assert max(global_steps(ada.text(f"jobs/{job['id']}/logs/?download=1"))) >= 1990
    paths = [a["path"] for a in ada.get(f"jobs/{job['id']}/artifacts/?page_size=200")["results"]]
    assert any(path.startswith("model.ckpt-2") for path in paths), paths
    assert any("events.out.tfevents" in path for path in paths), paths
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile(r"checkpoint$")).first.click()
    assert "model_checkpoint_path" in Path(download.value.path()).read_text()


def test_the_same_training_twice_in_a_row_trains_fully_twice(ada: Rest) -> None:
    bundle = ada.upload(SCRIPT)
    for _ in range(2):
        job = ada.submit(**BODY, source={"bundle": bundle})
        ada.wait(job, "running", "succeeded", timeout_s=FIRST_TRAINING_S)
        done = ada.wait(job, "succeeded", timeout_s=ENDED_S)
        log = ada.text(f"jobs/{job['id']}/logs/?download=1")
        assert len(global_steps(log)) == 2
        assert "Restoring parameters" not in log
        steps = sum(int(n) for n in re.findall(r"local_steps (\d+)", log))
        assert steps >= 2000, f"trained {steps} steps only"
        assert done["started_at"] < done["finished_at"]


def test_gpus_are_exclusive(ada: Rest) -> None:
    """One simulated GPU for each worker: each sees exactly one, and not the same."""
    job = ada.submit(
        name="gpus",
        topology="tf-ps",
        command=[
            "python",
            "-c",
            "import os, time; print('gpu', os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(1 if '{{job_name}}' == 'worker' else 1000)",
        ],
        replicas={"worker": {"count": 2, "gpu": 1, "cpu": "500m"}, "ps": {"cpu": "500m"}},
    )
    done = ada.wait(job, "succeeded")
    seen = re.findall(r"worker-\d \| gpu (\S+)", ada.text(f"jobs/{job['id']}/logs/?download=1"))
    assert len(seen) == 2
    assert len(set(seen)) == 2
    assert sorted(r["gpus"] for r in done["replicas"] if r["role"] == "worker") == sorted(seen)


def test_parameter_servers_are_recycled_half_a_minute_after_the_workers(
    portal: Portal, ada: Rest
) -> None:
    job = ada.submit(
        name="recycle",
        topology="tf-ps",
        command=[
            "python",
            "-c",
            "import time; time.sleep(1 if '{{job_name}}' == 'worker' else 1000)",
        ],
        replicas={"worker": {"cpu": "500m"}, "ps": {"cpu": "500m"}},
    )
    ada.wait(job, "succeeded")
    ended = time.monotonic()
    namespace = ada.tenant()["namespace"]
    assert "-ps-0" in kubectl(portal, "-n", namespace, "get", "deploy")
    wait_for(
        "the parameter server is gone",
        lambda: "recycle" not in kubectl(portal, "-n", namespace, "get", "deploy,svc"),
        timeout_s=60,
    )
    assert 20 < time.monotonic() - ended < 50
