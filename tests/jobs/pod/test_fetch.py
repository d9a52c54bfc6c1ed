"""What the init container does: volumes, folders, the runner, and code from everywhere."""

import gzip
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from jobs.pod import fetch, sources
from jobs.pod.addresses import check_url
from jobs.pod.errors import PodError
from jobs.pod.sources import safe_name
from tests.jobs.archives import tar_of, zip_of
from tests.jobs.pod.pods import FakeDoor, LocalServer, Pod


class Web(LocalServer):
    """A web server with one answer for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.authorization: str | None = None
        web = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                web.asked.append(self.path)
                web.authorization = self.headers["Authorization"]
                status, headers, data = web.answers.get(self.path, (404, {}, b"no"))
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        super().__init__(Handler)


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.close()


def workspace(pod: Pod) -> dict[str, bytes]:
    root = pod.root / "workspace"
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def brought(pod: Pod, **source: str) -> dict[str, bytes]:
    """The working directory with code from there."""
    pod.config["source"] = source
    assert pod.program("fetch")[0] == 0
    return workspace(pod)


def refused(pod: Pod, reason: str, **source: str) -> str:
    """The sentence with which it is refused."""
    pod.config["source"] = source or pod.config["source"]
    code, output = pod.program("fetch")
    assert code == 65
    assert pod.message["reason"] == reason
    assert pod.message["exit_code"] == 65
    text = str(pod.message["text"])
    assert f"[homeport] {text}\n" == output
    return text


def test_without_code_the_folders_and_the_runner_are_there(pod: Pod) -> None:
    code, output = pod.program("fetch")
    assert (code, output) == (
        0,
        "[homeport] no code was requested; the working directory is empty\n",
    )
    assert (pod.folder / "artifacts").is_dir()
    assert pod.state.is_dir()
    assert zipfile.is_zipfile(pod.root / "homeport/runner.py")
    assert os.listdir(pod.root / "data") == []
    assert os.listdir(pod.root / "log") == ["jobs"]


def test_what_was_fetched_runs(pod: Pod, door: FakeDoor) -> None:
    door.bundle = ("code.zip", zip_of(("train.py", b"print('trained')")))
    pod.config.update(source={"bundle": "x"}, command=[sys.executable, "train.py"])
    assert pod.program("fetch")[0] == 0
    assert pod.run(packed=True) == (0, b"trained\n")


def test_a_bundle_is_unpacked_without_its_lone_top_folder(pod: Pod, door: FakeDoor) -> None:
    door.bundle = ("code.zip", zip_of(("mnist/train.py", b"1"), ("mnist/mnist/x", b"2")))
    assert brought(pod, bundle="x") == {"train.py": b"1", "mnist/x": b"2"}
    door.bundle = ("code.zip", zip_of(("mnist/train.py", b"1"), ("README", b"2")))
    # Again in the same pod: nothing of the first is left.
    assert brought(pod, bundle="x") == {"mnist/train.py": b"1", "README": b"2"}


def test_a_plain_file_is_a_bundle_too(pod: Pod, door: FakeDoor) -> None:
    pod.config["source"] = {"bundle": "x"}
    door.bundle = ("../../train.py", b"print()")
    code, output = pod.program("fetch")
    assert (code, output) == (0, "[homeport] the code is train.py (7 bytes)\n")
    assert workspace(pod) == {"train.py": b"print()"}


@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        (("code.zip", zip_of(("../x", b"1"))), "bundle_unsafe"),
        (("code.zip", b"no zip"), "bundle_broken"),
        (("code.tar.gz", gzip.compress(b"no tar")), "bundle_broken"),
        (("train.py", b"x" * 2000), "bundle_too_large"),
    ],
)
def test_a_bundle_that_cannot_be_used_leaves_nothing(
    pod: Pod, door: FakeDoor, bundle: tuple[str, bytes], reason: str
) -> None:
    pod.config["source"] = {"bundle": "x"}
    pod.config["limits"]["bundle_bytes"] = 1000
    door.bundle = bundle
    refused(pod, reason)
    assert not (pod.root / "x").exists()


def test_a_bundle_that_was_swapped_is_refused(pod: Pod, door: FakeDoor) -> None:
    pod.config.update(source={"bundle": "x"}, retry_s=1)
    door.bundle = ("train.py", b"swapped")
    door.bundle_sha256 = "0" * 64
    assert "SHA-256" in refused(pod, "sha256_mismatch")


def test_a_portal_that_is_away_is_told(pod: Pod, door: FakeDoor) -> None:
    pod.config.update(source={"bundle": "x"}, retry_s=1)
    door.status = 503
    assert "answered 503" in refused(pod, "source_unreachable")
    door.status = 410
    assert "answered 410" in refused(pod, "source_unreachable")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        pod.environ["HOMEPORT_URL"] = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert "does not answer" in refused(pod, "source_unreachable")


def test_code_from_the_web_keeps_its_name(pod: Pod, web: Web) -> None:
    web.answers["/a/train%20it.py?x=1"] = (200, {}, b"print(1)")
    assert brought(pod, url=f"{web.url}/a/train%20it.py?x=1") == {"train it.py": b"print(1)"}
    web.answers["/code.tar.gz"] = (200, {}, gzip.compress(tar_of(("top/train.py", b"2"))))
    digest = hashlib.sha256(web.answers["/code.tar.gz"][2]).hexdigest()
    assert brought(pod, url=f"{web.url}/code.tar.gz", sha256=digest) == {"train.py": b"2"}


def test_redirects_are_followed_but_not_for_ever_and_not_everywhere(pod: Pod, web: Web) -> None:
    web.answers["/old.py"] = (302, {"Location": f"{web.url}/new.py"}, b"")
    web.answers["/new.py"] = (200, {}, b"new")
    assert brought(pod, url=f"{web.url}/old.py") == {"old.py": b"new"}
    for number in range(10):
        web.answers[f"/r{number}"] = (302, {"Location": f"/r{number + 1}"}, b"")
    refused(pod, "source_unreachable", url=f"{web.url}/r0")
    assert "/r9" not in web.asked
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://169.254.169.254/latest/"):
        web.answers["/evil"] = (302, {"Location": target}, b"")
        refused(pod, "source_unreachable", url=f"{web.url}/evil")
        assert workspace(pod) == {}


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        ((404, {}, b""), "source_unreachable", "answered 404"),
        ((403, {}, b""), "source_unreachable", "answered 403"),
        ((200, {}, b"x" * 5000), "bundle_too_large", "larger than"),
        ((200, {"Content-Length": "100"}, b"cut"), "source_unreachable", "IncompleteRead"),
        ((200, {}, b"other"), "sha256_mismatch", "asked for is"),
    ],
)
def test_what_the_web_does_wrong_is_told(
    pod: Pod,
    web: Web,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, dict[str, str], bytes],
    reason: str,
    words: str,
) -> None:
    monkeypatch.setattr(sources, "TRIES", 1)
    web.answers["/secret.py?token=hidden"] = answer
    pod.config["limits"]["bundle_bytes"] = 1000
    pod.config["source"] = {
        "url": f"{web.url.replace('//', '//user:password@')}/secret.py?token=hidden",
        "sha256": "0" * 64,
    }
    if words == "IncompleteRead":
        pod.config["source"].pop("sha256")
    with pytest.raises(PodError) as caught:
        sources.bring(pod.config, None, str(pod.root / "workspace"))  # type: ignore[arg-type]
    assert caught.value.reason == reason
    assert words in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "password" not in str(caught.value)
    assert web.authorization == "Basic dXNlcjpwYXNzd29yZA=="


NO_WEB = ("file:///etc/passwd", "ftp://host/x", "data:text/plain,x", "gopher://host/", "//host/x")
MALFORMED = ("http://", "http://[::1/x", "http://host:99999/x")
METADATA = ("http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/")
NUMBERS = ("http://2852039166/", "http://0xa9fea9fe/")  # the same address
ELSEWHERE = ("http://[fe80::1]/", "http://0.0.0.0/", "http://224.0.0.1/")


@pytest.mark.parametrize("url", [*NO_WEB, *MALFORMED, *METADATA, *NUMBERS, *ELSEWHERE])
def test_addresses_that_hold_no_code_are_refused(url: str) -> None:
    with pytest.raises(PodError) as caught:
        check_url(url)
    assert caught.value.reason == "source_unreachable"


def test_a_host_that_is_away_is_told_after_half_a_minute(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(sources.time, "sleep", waits.append)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/train.py"
        pod.config["source"] = {"url": url}
        with pytest.raises(PodError, match=r"cannot be reached: .*refused"):
            sources.bring(pod.config, None, str(pod.root / "workspace"))  # type: ignore[arg-type]
    assert waits == [0.0, 2.0, 4.0, 8.0, 16.0]


def test_a_folder_of_the_data_volume_is_copied(pod: Pod) -> None:
    source = pod.root / "data/src"
    (source / "pkg").mkdir(parents=True)
    (source / "train.py").write_bytes(b"1")
    (source / "run.sh").write_bytes(b"2")
    (source / "run.sh").chmod(0o755)
    (pod.root / "data/mnist").mkdir()
    (source / "pkg/shared.py").symlink_to(pod.root / "data/shared.py")
    (pod.root / "data/shared.py").write_bytes(b"3")
    (source / "mnist").symlink_to("../mnist")
    (source / "nothing").symlink_to("gone")
    os.mkfifo(source / "pipe")
    assert brought(pod, path=str(source)) == {
        "train.py": b"1",
        "run.sh": b"2",
        "pkg/shared.py": b"3",
    }
    assert os.access(pod.root / "workspace/run.sh", os.X_OK)
    assert not (pod.root / "workspace/pkg/shared.py").is_symlink()
    assert os.path.realpath(pod.root / "workspace/mnist") == str(pod.root / "data/mnist")
    assert brought(pod, path=str(source / "train.py")) == {"train.py": b"1"}


def test_a_path_that_is_not_on_the_data_volume_is_refused(pod: Pod) -> None:
    data = pod.root / "data"
    (data / "out").symlink_to("/etc")
    (data / "src").mkdir()
    (data / "src/key").symlink_to("/etc/hostname")
    for path in ("/etc", str(data / "out"), str(data / "../run/homeport"), str(pod.root / "data2")):
        said = refused(pod, "source_outside_volume", path=path)
        assert "does not lie on the data volume" in said
    said = refused(pod, "source_outside_volume", path=str(data / "src"))
    assert "outside the data volume" in said
    assert "there is no" in refused(pod, "source_unreachable", path=str(data / "absent"))


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot be kept from its own folder")
def test_volumes_that_cannot_be_written_are_told_as_an_ordinary_user(pod: Pod) -> None:
    (pod.root / "etc/homeport/job.json").write_text(json.dumps(pod.config))
    for folder, words in (("data", "the data volume"), ("log", "the log volume")):
        for path in (pod.root, *pod.root.rglob("*")):
            path.chmod(0o777)
        (pod.root / folder).chmod(0o555)
        code = (
            "import os, sys\n"
            "from jobs.pod import fetch\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(fetch.main(['--root', sys.argv[1]]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(pod.root)],
            cwd=Path(__file__).resolve().parents[3],
            env=pod.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 65, done.stderr
        assert pod.message["reason"] == "volume_not_writable"
        assert words in pod.message["text"]
        (pod.root / folder).chmod(0o755)


def test_a_folder_that_cannot_be_made_is_told(pod: Pod) -> None:
    (pod.root / "log/jobs").write_text("a file where the folder belongs")
    assert "the log volume" in refused(pod, "volume_not_writable")


def test_a_full_volume_is_told_in_words() -> None:
    error = fetch.volume_error(OSError(28, "No space left on device"), "data", "/data")
    assert error.reason == "volume_full"
    assert "/data" in str(error)
    assert fetch.volume_error(OSError(122, "quota"), "log", "/log").reason == "volume_full"
    assert fetch.volume_error(OSError(30, "ro"), "log", "/log").reason == "volume_not_writable"
    if os.path.exists("/dev/full"):
        with pytest.raises(PodError) as caught:
            _fill(Path("/dev/full"))
        assert caught.value.reason == "volume_full"


def _fill(path: Path) -> None:
    """A write that really fails for want of space, put into words as the probe does."""
    try:
        with path.open("wb") as file:
            file.write(b"x" * 100_000)
    except OSError as error:
        raise fetch.volume_error(error, "data", "/data") from error


def test_a_missing_configuration_is_told(pod: Pod) -> None:
    shutil.rmtree(pod.root / "run")
    assert "could not be prepared" in refused(pod, "configuration_broken")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("train.py", "train.py"),
        ("a/b/train.py", "train.py"),
        ("..\\..\\x.py", "x.py"),
        ("..", "download"),
        ("", "download"),
        ("a/", "download"),
        (".homeport-x", "download"),
        ("a\x00b\nc", "abc"),
        ("ä" * 300, "ä" * 100),
    ],
)
def test_names_from_elsewhere_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name, "download") == safe
