"""Homeport in pods: installed by the commands of docs/cluster.md, and used by its address."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import requests

from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.portal import PASSWORD, Portal, Rest
from tests.image.build import archive
from tests.nodes import stand_ins
from tests.nodes.pods import Pods
from tests.tools.kubectls import current_kubectl
from tests.tools.manifests import blocks
from tests.tools.waiting import wait_for

OVERLAY = "deploy/kubernetes/overlays/small"
INVITATION = 5  # which of the page's commands invites the first admin; what follows is for whoever is signed in
IMAGE = "registry.example/homeport:0.2.0"
K3S = Path(__file__).with_name("k3s_storage.yaml")
DOCTOR_S = 90  # at most, the images being there
NODE_HOST = "10.99.0.21"  # a second address of the first node stands for its second name


def values(portal: str) -> dict[str, str]:
    """What a site writes into the page's first block; nothing else of the page is changed.

    Args:
        portal: the address of a node by which people come.
    """
    return {
        "PORTAL_IMAGE": IMAGE,
        "PUBLIC_URL": f"https://{portal}:30443",
        "NODE_HOST": NODE_HOST,
        "NODE_CIDRS": network.NODES,
        "CLIENT_CIDRS": network.CLIENTS,
        "POD_CIDR": network.PODS,
    }


@dataclass
class Installed(Portal):
    """Homeport in pods, which people reach by HTTPS; no process of it is ours."""

    address: str = ""

    @property
    def url(self) -> str:
        return self.address

    def tail(self, lines: int = 60) -> str:
        return "its log is in the cluster"

    def session(self, name: str) -> requests.Session:
        return _send_form(f"{self.url}/sign-in/", {"username": name, "password": PASSWORD})

    def invite(self, name: str, role: str = "researcher") -> Rest:
        """Somebody new, whom the admin ann invites, signed in."""
        person = {"username": name, "role": role}
        invited = self.sign_in("ann").call("POST", "users/", json=person)
        assert invited.status_code == 201, invited.text
        join(invited.json()["join_url"])
        return self.sign_in(name)


def prepare(cluster: NodeCluster, folder: Path, *more: Path) -> None:
    """All images, and those of more archives, on all nodes, k3s' default class, and the first node's second address."""
    first = cluster.nodes[0]
    words = ("ip", "address", "add", f"{NODE_HOST}/24", "dev", "eth0")
    subprocess.run(first.enter(*words), check=True)
    for file in (archive(IMAGE), stand_ins.archive(folder), *more):
        for node in cluster.nodes:
            subprocess.run(node.ctr("images", "import", str(file)), check=True, capture_output=True)
    Pods(cluster.kubeconfig).must("apply", "-f", str(K3S))


def run(folder: Path, command: str, kubeconfig: Path, typed: str = "") -> str:
    """A block of the page in its reader's shell."""
    programs = (Path(current_kubectl()).parent, Path(sys.executable).parent)
    environment = {
        "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(folder),
    }
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=660,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def commands(site: Mapping[str, str], title: str = "Small: one node") -> Sequence[str]:
    """Those of a section of the page, with a site's values in the first one."""
    first, *others = blocks(title)
    for name, value in site.items():
        first, count = re.subn(rf"^{name}=.*$", f"{name}={value}", first, flags=re.MULTILINE)
        assert count == 1, f"the page's first block has no line {name}"
    return first, *others


def join(link: str) -> requests.Session:
    """Open the link of an invitation, set a password, and be signed in."""
    return _send_form(link, {"new_password1": PASSWORD, "new_password2": PASSWORD})


def _send_form(address: str, fields: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    page = session.get(address, timeout=30)
    assert page.ok, page
    press(session, page, page.url, fields)
    return session


def press(
    session: requests.Session,
    page: requests.Response,
    address: str,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Send a form of the page; by HTTPS it has to say where it comes from."""
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    sent = {"csrfmiddlewaretoken": found[1], **(fields or {})}
    answer = session.post(
        urljoin(page.url, address), sent, timeout=30, headers={"Referer": page.url}
    )
    assert answer.ok, answer.text


def invitation(said: str) -> str:
    """The link in what `manage.py invite` says."""
    found = re.search(r"https://\S+", said)
    assert found, said
    return found[0]


def log(rest: Rest, job: str) -> str:
    """Of a training, as it is kept."""
    return rest.text(f"jobs/{job}/logs/?download=1")


def doctor(pods: Pods) -> str:
    """Waits for the result of the first doctor in the cluster, whose steps have to pass in time; its time in words."""

    def result() -> str:
        kept = pods.get("-n", "homeport", "configmap", "doctor")
        return str(kept.get("data", {}).get("result.json", ""))

    found = json.loads(wait_for("doctor has kept its result", result, timeout_s=300))
    outcomes = {one["name"]: one["outcome"] for one in found["checks"]}
    assert set(outcomes.values()) == {"passed"}, found
    assert len(outcomes) == 12
    own_s = found["took_s"] - found["pull_s"] - found["queued_s"]
    assert own_s <= DOCTOR_S, found
    return f"{own_s:.0f} s, besides {found['pull_s']} s for images and {found['queued_s']} s queued"
