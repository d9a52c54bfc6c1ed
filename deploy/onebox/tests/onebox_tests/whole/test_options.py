"""The options of onebox, each seen from outside."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from onebox.testing import OneBox, start
from onebox.testing.kube import Kube, Space, python, shell
from onebox_tests.ports import free_port


class Portal(http.server.BaseHTTPRequestHandler):
    """Stands for the portal on this machine's loopback."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the portal")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def portal_port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def chosen(
    tmp_path_factory: pytest.TempPathFactory, portal_port: int
) -> Iterator[tuple[OneBox, Path, int]]:
    folder = tmp_path_factory.mktemp("options")
    volumes, port = folder / "volumes", free_port()
    box = start(
        folder / "onebox",
        gpus=1,
        cpu=3,
        forward=portal_port,
        egress="on",
        volumes_dir=volumes,
        port=port,
        node_port_range="31500-31509",
    )
    yield box, volumes, port
    box.stop()


@pytest.fixture(scope="module")
def own_space(chosen: tuple[OneBox, Path, int]) -> Space:
    return Space(Kube(chosen[0].kubeconfig), "t")


def test_the_api_listens_where_it_was_told(chosen: tuple[OneBox, Path, int]):
    config = yaml.safe_load(chosen[0].kubeconfig.read_text())
    assert urlsplit(config["clusters"][0]["cluster"]["server"]).port == chosen[2]


def test_the_node_offers_what_it_was_told(own_space: Space):
    node = own_space.kube.get("/api/v1/nodes/onebox")
    capacity = node["status"]["capacity"]
    assert (capacity["cpu"], capacity["nvidia.com/gpu"]) == ("3", "1")


def test_pods_reach_the_portal_at_its_address_in_the_cluster(own_space: Space):
    script = (
        "import urllib.request as u\n"
        "opener = u.build_opener(u.ProxyHandler({}))\n"
        "print(opener.open('http://10.244.0.1:8000/', timeout=5).read().decode())"
    )
    assert own_space.output("portal", python(script)) == "the portal\n"


def test_with_egress_pods_are_told_the_way_out_and_grpc_is_kept_from_it(own_space: Space):
    script = 'echo "$https_proxy|$grpc_proxy|$no_proxy"'
    own_space.kube.create(
        own_space.path("services"),
        {"metadata": {"name": "peers"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
    )
    own_space.output("first", shell("true"))
    proxy, grpc, exceptions = own_space.output("p", shell(script)).strip().split("|")
    assert (proxy, grpc) == ("http://10.244.0.1:3128", "")
    assert {"peers", "peers.t", "10.244.0.1"} <= set(exceptions.split(","))


def test_volumes_lie_where_they_were_told(own_space: Space, chosen: tuple[OneBox, Path, int]):
    claim = {
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    own_space.kube.create(own_space.path("persistentvolumeclaims"), claim)
    own_space.kube.wait(
        own_space.path("persistentvolumeclaims", "c"),
        lambda c: (c.get("status") or {}).get("phase") == "Bound",
    )
    # The folder, and beside it whose it is.
    [folder] = [path for path in chosen[1].iterdir() if path.is_dir()]
    assert [path.name for path in chosen[1].iterdir() if path != folder] == [
        f"{folder.name}.owner.json"
    ]


def test_node_ports_come_from_the_range(own_space: Space):
    body = {
        "metadata": {"name": "open"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    created = own_space.kube.create(own_space.path("services"), body)
    assert 31500 <= created["spec"]["ports"][0]["nodePort"] <= 31509
