# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""A TensorFlow server, for trainings in one graph; without a master the first one brings a notebook that drives them."""

import contextlib
import json
import os
import signal
import sys
import threading
from importlib import import_module
from typing import Any, Dict, List

from jobs.pod.files import write_whole
from jobs.pod.protocol.codes import EXIT_NO_PROGRAM
from jobs.pod.protocol.notices import notice

# Cells of the notebook: its first lines are the only ones that depend on the training.
_LOOK = """import json
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
with open(CLUSTER) as file:  # written anew by each attempt of the training
    cluster = json.load(file)
if tf.__version__ != cluster["tensorflow"]:
    print("TensorFlow is", tf.__version__, "here and", cluster["tensorflow"], "in the servers.")
print(cluster["target"])
with tf.Session(cluster["target"]) as session:
    for device in session.list_devices():
        print(device.name)"""
_TRAIN = """workers = [device for device in cluster["devices"] if "worker" in device]
with tf.Graph().as_default():
    with tf.device(cluster["devices"][-1]):  # a parameter server, where there is one
        w, b = tf.Variable(0.0), tf.Variable(0.0)
    losses = []
    for number, worker in enumerate(workers):  # each has samples of its own
        x = np.random.RandomState(number).rand(100).astype("float32")
        with tf.device(worker):
            losses.append(tf.reduce_mean(tf.square(w * x + b - (0.1 * x + 0.3))))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.add_n(losses) / len(losses))
    with tf.Session(cluster["target"]) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(300):
            session.run(step)
        print("w %.3f b %.3f" % tuple(session.run([w, b])))"""


def notebook(cluster_path: str) -> Dict[str, Any]:
    """https://nbformat.readthedocs.io/en/latest/format_description.html"""
    sources = (f"CLUSTER = {json.dumps(cluster_path)}\n{_LOOK}", _TRAIN)
    cells: List[Dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for source in sources
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


def write_cluster(cluster: Dict[str, List[str]], version: str, log_dir: str) -> str:
    """Writes cluster.json anew; the address at which the servers are reached.

    Raises:
        OSError: a volume cannot be written.
    """
    devices = [
        f"/job:{role}/task:{n}" for role, hosts in cluster.items() for n in range(len(hosts))
    ]
    target = "grpc://" + cluster["worker"][0]
    found = {"target": target, "cluster": cluster, "devices": devices, "tensorflow": version}
    write_whole(os.path.join(log_dir, "cluster.json"), json.dumps(found, indent=1))
    return target


class Notebook:
    """The notebook that drives the servers of one training: there as long as they are."""

    def __init__(self, log_dir: str, data_dir: str) -> None:
        self.path = os.path.join(data_dir, f"master_client-{os.path.basename(log_dir)}.ipynb")
        self._text = json.dumps(notebook(os.path.join(log_dir, "cluster.json")), indent=1)

    def bring(self) -> None:
        """Writes it where there is none.

        Raises:
            OSError: the volume cannot be written.
        """
        if not os.path.exists(self.path):
            write_whole(self.path, self._text)

    def take_away(self) -> None:
        """Removes it unless its owner has changed it."""
        with contextlib.suppress(OSError, ValueError):  # gone, out of reach, or another file
            with open(self.path, encoding="utf-8") as file:
                is_ours = file.read(len(self._text) + 1) == self._text
            if is_ours:
                os.unlink(self.path)

    def take_away_at_the_end(self) -> None:
        """When this process is asked to end, which it then does by that signal."""

        def end(number: int, _frame: Any) -> None:
            self.take_away()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, end)


def main(arguments: List[str]) -> int:
    """The exit code of this process.

    Args:
        arguments: role, index, the addresses of all servers by role as JSON, and `notebook` where one drives them.
    """
    try:
        tensorflow = import_module("tensorflow")
    except ImportError as error:
        sys.stderr.write(notice(f"there is no TensorFlow in this image: {error}"))
        return EXIT_NO_PROGRAM
    role, index, cluster = arguments[0], int(arguments[1]), json.loads(arguments[2])
    server = tensorflow.distribute.Server(cluster, job_name=role, task_index=index)
    if (role, index) == ("worker", 0):
        log_dir = os.environ["LOG_DIR"]
        text = f"{write_cluster(cluster, tensorflow.__version__, log_dir)} serves"
        if "notebook" in arguments[3:]:
            driver = Notebook(log_dir, os.environ["DATA_DIR"])
            driver.take_away_at_the_end()
            driver.bring()
            text += f"; {driver.path} is a notebook for it, until it ends"
        sys.stdout.write(notice(text))
        sys.stdout.flush()
    # `join` never comes back to Python, which would let no handler run in its thread.
    joined = threading.Thread(target=server.join, daemon=True)
    joined.start()
    joined.join()
    return 0
