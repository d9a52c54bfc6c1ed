"""The program that serves TensorFlow: what it leaves for notebooks, and an image that lacks it."""

import json
from pathlib import Path

from jobs.pod import tf_server
from jobs.pod.fetch import TF_MODULES, write_program
from tests.jobs.pod.pods import Pod


def test_each_attempt_says_anew_where_it_serves_and_nobodys_notebook_is_touched(
    tmp_path: Path,
) -> None:
    log_dir, data_dir = str(tmp_path / "digits-abc123"), str(tmp_path)
    (tmp_path / "digits-abc123").mkdir()
    told, notebook = (
        tmp_path / "digits-abc123/cluster.json",
        tmp_path / "master_client-digits-abc123.ipynb",
    )
    for attempt in ("one", "two"):
        cluster = {
            "worker": [f"{attempt}-0:2222", f"{attempt}-1:2222"],
            "ps": [f"{attempt}-2:2222"],
        }
        tf_server.leave(cluster, "2.21.0", log_dir, data_dir)
        assert json.loads(told.read_text()) == {
            "target": f"grpc://{attempt}-0:2222",
            "cluster": cluster,
            "devices": ["/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"],
            "tensorflow": "2.21.0",
        }
        first, *_others = json.loads(notebook.read_text())["cells"]
        assert str(told) in first["source"]
        notebook.write_text(notebook.read_text() + " ")
    assert notebook.read_text().endswith("}  ")


def test_an_image_without_tensorflow_is_told(pod: Pod) -> None:
    pod.config["programs"] = {"worker": "tf_server"}
    write_program(pod.root / "homeport/tf_server.py", TF_MODULES)
    code, output = pod.run()
    assert code == 69
    assert b"[homeport] there is no TensorFlow in this image: No module named" in output
    assert pod.message["reason"] == "no_tensorflow"
