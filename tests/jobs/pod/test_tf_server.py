"""The program that serves TensorFlow: what it leaves for notebooks and takes away, and an image that lacks it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.pod import tf_server
from jobs.pod.fetch import TF_MODULES, write_program
from tests.jobs.pod.pods import Pod
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
# A server that, like the real one, does not come back to Python from `join`.
TENSORFLOW = """
import ctypes
__version__ = "2.21.0"
class distribute:
    class Server:
        def __init__(self, cluster, job_name, task_index): pass
        def join(self): ctypes.CDLL(None).sleep(600)
"""


def test_each_attempt_says_anew_where_it_serves(tmp_path: Path) -> None:
    for attempt in ("one", "two"):
        cluster = {
            "worker": [f"{attempt}-0:2222", f"{attempt}-1:2222"],
            "ps": [f"{attempt}-2:2222"],
        }
        target = f"grpc://{attempt}-0:2222"
        assert tf_server.write_cluster(cluster, "2.21.0", str(tmp_path)) == target
        assert json.loads((tmp_path / "cluster.json").read_text()) == {
            "target": target,
            "cluster": cluster,
            "devices": ["/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"],
            "tensorflow": "2.21.0",
        }


@pytest.mark.parametrize(
    ("is_driven", "change", "stays"),
    [
        (True, None, False),
        (True, "saved by its owner", True),
        (True, "there before", True),
        (False, None, False),
        (False, "there before", True),
    ],
)
def test_a_notebook_is_there_as_long_as_its_servers(
    is_driven: bool, change: str | None, stays: bool, tmp_path: Path
) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "tensorflow.py").write_text(TENSORFLOW)
    log_dir = tmp_path / "log" / "digits-abc123"
    log_dir.mkdir(parents=True)
    path = tmp_path / "master_client-digits-abc123.ipynb"
    if change == "there before":
        path.write_text("mine")
    words = [
        "worker",
        "0",
        json.dumps({"worker": ["a:2222"]}),
        *(["notebook"] if is_driven else []),
    ]
    code = "import sys; from jobs.pod.tf_server import main; sys.exit(main(sys.argv[1:]))"
    environ = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path / 'packages'}:{ROOT}",
        "LOG_DIR": str(log_dir),
        "DATA_DIR": str(tmp_path),
    }
    server = subprocess.Popen(
        [sys.executable, "-c", code, *words], env=environ, stdout=subprocess.PIPE
    )
    assert server.stdout
    try:
        told = server.stdout.readline().decode()
        assert "grpc://a:2222 serves" in told
        assert (str(path) in told) == is_driven
        assert path.exists() == (is_driven or change is not None)
        if is_driven and change != "there before":
            first, *_others = json.loads(path.read_text())["cells"]
            assert str(log_dir / "cluster.json") in first["source"]
        if change == "saved by its owner":
            path.write_text(path.read_text() + " ")
        server.send_signal(signal.SIGTERM)
        # As before: what is asked to end ends by that signal, and at once.
        wait_for("it ends", lambda: server.poll() is not None, timeout_s=10)
        assert server.returncode == -signal.SIGTERM
    finally:
        server.kill()
        server.wait()
    assert path.exists() == stays


@pytest.mark.parametrize("master", [True, False])
def test_a_notebook_is_asked_for_where_no_master_drives(master: bool, pod: Pod) -> None:
    pod.config["programs"] = {"worker": "tf_server", "ps": "tf_server"}
    pod.config["hosts"] = {
        "worker": ["localhost:2222"],
        **({"master": ["localhost:1"]} if master else {}),
    }
    (pod.root / "homeport").mkdir(exist_ok=True)
    (pod.root / "homeport/tf_server.py").write_text("import sys; print('given', sys.argv[4:])")
    _code, output = pod.run()
    assert (b"given ['notebook']" in output) != master
    assert b"given [" in output


def test_an_image_without_tensorflow_is_told(pod: Pod) -> None:
    pod.config["programs"] = {"worker": "tf_server"}
    write_program(pod.root / "homeport/tf_server.py", TF_MODULES)
    code, output = pod.run()
    assert code == 69
    assert b"[homeport] there is no TensorFlow in this image: No module named" in output
    assert pod.message["reason"] == "no_tensorflow"
