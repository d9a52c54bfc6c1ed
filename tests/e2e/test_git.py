"""Code from git on the embedded cluster: all replicas and attempts run the commit that came first."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest, new_home, thrown_away
from tests.e2e.test_cli import CommandLine
from tests.tools.authority import Authority
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e
CANARY = "canary-c0ffee"
SMALL = {"cpu": "100m", "memory": "128Mi"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[Rest, Authority]]:
    """Somebody on an installation whose pods are given an authority of the site's own."""
    authority = Authority(tmp_path / "authority")
    given = {"POD_AUTHORITIES_FILE": str(authority.folder / "ca.crt")}
    with thrown_away(Portal(new_home("git"), environment=given)) as portal:
        ada = portal.sign_in("ada")
        ada.tenant()
        yield ada, authority


def serve(ada: Rest, authority: Authority, folder: Path) -> tuple[str, str]:
    """A pod that serves a repository; where, and its first commit."""
    key = authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with zipfile.ZipFile(folder / "serve.zip", "w") as code:
        code.write(ROOT / "tests/e2e/git_in_pod.py", "serve.py")
        code.write(ROOT / "tests/jobs/pod/git_backend.py", "git_backend.py")
        code.writestr("ca.crt", authority.pem)
        code.writestr("ca.key", key)
    source = {"bundle": ada.upload(folder / "serve.zip")}
    command, replicas = ["python", "serve.py"], {"worker": SMALL}
    job = ada.submit(name="git", command=command, replicas=replicas, source=source)
    ada.wait(job, "running")
    found = wait_for(
        "the repository is served",
        lambda: re.search(r"serving (\S+) (\w+)", ada.text(f"jobs/{job['id']}/logs/")),
        timeout_s=60,
    )
    return found.group(1), found.group(2)


def test_a_second_attempt_runs_the_same_commit_and_a_private_repository_is_denied(
    lab: tuple[Rest, Authority], tmp_path: Path
) -> None:
    ada, authority = lab
    url, first = serve(ada, authority, tmp_path)
    source = {"git": f"{url}/project/.git", "ref": "main", "path": "src"}
    job = ada.submit(
        name="from git",
        topology="tf-ps",
        command=["python", "main.py"],
        replicas={"worker": SMALL, "ps": SMALL},
        source=source,
        retries=1,
    )
    assert (job["source"], job["source_commit"]) == (source, None)
    done = ada.wait(job, "succeeded", timeout_s=240)
    assert (done["attempt"], done["source_commit"]) == (2, first)
    log = ada.text(f"jobs/{job['id']}/logs/?attempt=all&replica=worker-0")
    assert re.findall("this is version .*", log) == ["this is version 1"] * 2
    log = ada.text(f"jobs/{job['id']}/logs/?attempt=all&replica=ps-0")
    assert set(re.findall("this is version .*", log)) == {"this is version 1"}
    page = ada.portal.session("ada").get(f"{ada.portal.url}/trainings/{job['id']}/", timeout=60)
    assert first in page.text
    # What is asked for anew gets the branch as it is now.
    later = ada.submit(command=["true"], replicas={"worker": SMALL}, source=source)
    assert ada.wait(later, "succeeded")["source_commit"] not in {None, first}

    # Arena's docs/training/tfjob/distributed.md with other images, a smaller size and a try more.
    homeport = CommandLine(tmp_path)
    homeport("login", ada.portal.url, "--user", "ada", stdin=PASSWORD + "\n")
    small = [f"--{role}-{name}={size}" for role in ("worker", "ps") for name, size in SMALL.items()]
    done = homeport(
        *("submit", "tf", "--name=tf-dist-git", "--workers=2", "--worker-image=python:3.11-slim"),
        *("--sync-mode=git", f"--sync-source={url}/samples.git", "--ps=1", "--tensorboard"),
        *("--ps-image=python:3.11-slim", "--retry=1", "--wait", *small),
        "python code/samples/src/main.py --log_dir=/training_logs --data_dir=code/samples/data",
    )
    assert "has succeeded" in done.stderr
    assert "this is version" in homeport("logs", "tf-dist-git", "-i", "0", "--since", "1h").stdout
    assert [row["name"] for row in homeport.json("tensorboard", "list")] == ["tf-dist-git"]

    private = {"git": f"{url}/private/.git"}
    job = ada.submit(command=["true"], replicas={"worker": SMALL}, source=private)
    assert ada.wait(job, "failed")["reason"]["code"] == "git_denied"
    check_secrets(ada, private)


def check_secrets(ada: Rest, private: dict[str, str]) -> None:
    """The same with a password, which the program is given too; nobody else sees it."""
    values = {"git": {"username": "ada", "password": CANARY}, "wandb": {"API_KEY": CANARY}}
    seen = [ada.call("PUT", f"secrets/{name}/", json={"data": values[name]}) for name in values]
    compare = (
        "import os, pathlib; password = pathlib.Path('/secrets/git/password').read_text(); "
        "print('same', password == os.environ['API_KEY'], len(password), os.path.exists('/run/git-secret'))"
    )
    job = ada.submit(
        command=["python", "-c", compare],
        replicas={"worker": SMALL},
        source={**private, "secret": "git"},
        secrets={"wandb": "env", "git": "files"},
    )
    assert ada.wait(job, "succeeded")["source_commit"]
    paths = (f"jobs/{job['id']}/", f"jobs/{job['id']}/manifests/", f"jobs/{job['id']}/logs/")
    text = [ada.text(path) for path in (*paths, f"jobs/{job['id']}/events/", "secrets/")]
    assert "same True 13 False" in text[2]
    shown = "".join([*text, *(one.text for one in seen), ada.portal.log.read_text()])
    assert CANARY not in shown
    assert "user-wandb-1" in shown
    databases = ada.portal.home.glob("homeport.sqlite3*")
    assert not [path for path in databases if CANARY.encode() in path.read_bytes()]
    assert {one["state"] for one in ada.get("secrets/")["results"]} == {"ready"}
