"""What can go wrong with a training: each ends with words that say what and what to do next, and
leaves nothing behind."""

import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal import Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e


# What `kubectl get` calls a pod that runs no more.
OVER = ("Completed", "Error", "OOMKilled", "Init:", "StartError", "ContainerCannotRun")


def left_behind(portal: Portal, rest: Rest, job: dict[str, Any]) -> list[str]:
    """Objects of the job that still take up room in the cluster: what runs, and Services."""
    inside = ("-n", rest.tenant()["namespace"], "-l", f"homeport.dev/owner={job['id']}")
    text = kubectl(portal, "get", "pods,deploy,svc", "--no-headers", *inside)
    return [line for line in text.splitlines() if not any(word in line for word in OVER)]


def fails(portal: Portal, rest: Rest, timeout_s: float = 120, **body: Any) -> dict[str, Any]:
    """Submits, waits for `failed`, and checks that words are there and nothing is held."""
    job = rest.submit(**{"command": ["python", "main.py"], **body})
    done = rest.wait(job, "failed", timeout_s=timeout_s)
    assert done["reason"]["text"], done
    assert done["reason"]["next_step"], done
    wait_for("nothing is left", lambda: not left_behind(portal, rest, job), timeout_s=60)
    return done


def archive(tmp_path: Path, name: str, fill: Callable[[tarfile.TarFile], None]) -> Path:
    path = tmp_path / name
    with tarfile.open(path, "w:gz") as tar:
        fill(tar)
    return path


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


HOSTILE: dict[str, Callable[[tarfile.TarFile], None]] = {
    "parent": lambda tar: tar.addfile(member("../../evil", size=1), io.BytesIO(b"x")),
    "absolute": lambda tar: tar.addfile(member("/workspace/../evil", size=1), io.BytesIO(b"x")),
    "symlink": lambda tar: tar.addfile(member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "hardlink": lambda tar: tar.addfile(member("a", type=tarfile.LNKTYPE, linkname="../x")),
    "device": lambda tar: tar.addfile(member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "fifo": lambda tar: tar.addfile(member("pipe", type=tarfile.FIFOTYPE)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives(ada: Rest, tmp_path: Path, kind: str) -> None:
    """Refused at the upload, by the reader that also unpacks in pods (tests/jobs/test_upload_verdicts.py)."""
    with archive(tmp_path, "code.tar.gz", HOSTILE[kind]).open("rb") as file:
        answer = ada.call("POST", "bundles/", files={"file": ("code.tar.gz", file)})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "bundle_unsafe")


SERVER = """
import http.server, os
replica = os.environ["HOMEPORT_POD_NAME"].rpartition("-")[0]
print(f"serving http://{replica}.{replica.rsplit('-', 2)[0]}:8000", flush=True)
http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)
"""


def a_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(30):
            packed.writestr(f"zeros-{number}", bytes(100 * 1024**2))
    assert path.stat().st_size < 4 * 1024**2


def a_truncated_archive(path: Path) -> None:
    noise = os.urandom(200_000)
    archive(
        path.parent,
        path.name,
        lambda tar: tar.addfile(member("main.py", size=len(noise)), io.BytesIO(noise)),
    )
    path.write_bytes(path.read_bytes()[:100_000])


def test_archives_that_no_pod_unpacks(portal: Portal, ada: Rest, tmp_path: Path) -> None:
    """Refused at the upload; what an address gives the pod alone sees."""
    a_bomb(tmp_path / "bomb.zip")
    a_truncated_archive(tmp_path / "cut.tar.gz")
    with zipfile.ZipFile(tmp_path / "served.zip", "w") as packed:
        for name in ("bomb.zip", "cut.tar.gz"):
            packed.write(tmp_path / name, name)
    source = {"bundle": ada.upload(tmp_path / "served.zip")}
    server = ada.submit(command=["python", "-c", SERVER], source=source)
    ada.wait(server, "running")
    found = wait_for(
        "they are served",
        lambda: re.search(r"serving (\S+)", ada.text(f"jobs/{server['id']}/logs/")),
        timeout_s=60,
    )
    for name, code, reasons in (
        ("bomb.zip", "bundle_too_large", {"bundle_unsafe", "bundle_too_large"}),
        ("cut.tar.gz", "bundle_broken", {"bundle_broken"}),
    ):
        with (tmp_path / name).open("rb") as file:
            answer = ada.call("POST", "bundles/", files={"file": (name, file)})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, code)
        done = fails(portal, ada, source={"url": f"{found.group(1)}/{name}"})
        assert done["reason"]["code"] in reasons, done["reason"]
    assert ada.call("POST", f"jobs/{server['id']}/stop/").status_code == 200


def test_an_address_that_nobody_answers(portal: Portal, ada: Rest) -> None:
    done = fails(portal, ada, source={"url": "http://nowhere.invalid/main.py"})
    assert done["reason"]["code"] == "source_unreachable", done["reason"]


def test_a_missing_command(portal: Portal, ada: Rest) -> None:
    done = fails(portal, ada, command=["no-such-program"])
    assert done["reason"]["code"] == "command_not_found", done["reason"]
    assert "no-such-program" in done["reason"]["text"]
    assert done["replicas"][0]["exit_code"] == 127


def test_a_missing_image(portal: Portal, ada: Rest) -> None:
    job = ada.submit(command=["true"], image="nobody/nothing:1", starting_deadline_s=600)
    found = wait_for(
        "the reason names the image",
        lambda: (
            (seen := ada.get(f"jobs/{job['id']}/"))["reason"]["code"].startswith("image") and seen
        ),
        timeout_s=60,
    )
    assert "nobody/nothing:1" in found["reason"]["text"]
    assert found["reason"]["next_step"]
    assert ada.call("POST", f"jobs/{job['id']}/stop/").status_code == 200
    ada.wait(job, "stopped")
    wait_for("nothing is left", lambda: not left_behind(portal, ada, job), timeout_s=60)


def test_an_image_without_python(portal: Portal, ada: Rest) -> None:
    done = fails(portal, ada, image="scratch:shell", command=["true"])
    assert "python" in done["reason"]["text"].lower(), done["reason"]


def test_out_of_memory(portal: Portal, ada: Rest) -> None:
    eat = "x = [bytearray(2**24) for _ in range(64)]; print(len(x))"
    done = fails(
        portal, ada, command=["python", "-c", eat], replicas={"worker": {"memory": "128Mi"}}
    )
    assert done["reason"]["code"] == "out_of_memory", done["reason"]
    assert "128Mi" in done["reason"]["text"]


def test_more_than_the_quota_is_refused_at_once(ada: Rest) -> None:
    body = {"name": "huge", "image": "python:3.11-slim", "command": ["true"]}
    answer = ada.call("POST", "jobs/", json={**body, "replicas": {"worker": {"cpu": "500"}}})
    assert answer.status_code == 400
    error = answer.json()["errors"][0]
    assert (error["field"], error["code"]) == ("replicas.worker.cpu", "never_fits")
    assert "500" in error["text"]


def test_a_program_that_fails_says_its_cause_and_keeps_its_log(portal: Portal, ada: Rest) -> None:
    done = fails(
        portal, ada, command=["python", "-c", "print('before the end'); import nonexistent"]
    )
    assert done["replicas"][0]["exit_code"] == 1
    assert done["reason"]["code"] == "missing_module"
    assert "No module named 'nonexistent'" in done["reason"]["text"]
    assert "No module named 'nonexistent'" in ada.text(f"jobs/{done['id']}/logs/?download=1")
