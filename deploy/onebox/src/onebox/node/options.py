"""The options of the node program, read from its command line."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

from onebox.node.logaccess import CertificateAccess

API_SERVER = "kube-apiserver-kubelet-client"  # as kubeadm names it
PORTAL_PORT = 8000  # where pods find the portal, at the gateway's address


@dataclass(frozen=True)
class NodeOptions:
    """What the node was asked to be.

    Args:
        services_kubeconfig: of who follows Services and makes volumes, which is no node's right;
            the node's own where the API makes no difference.
        certificates: how the log server and the API server know each other; None: by the token.
        cpu_cores: offered; None for the default.
        gpus: "auto" or a number.
        forwards: (port on this machine's loopback, port at 10.244.0.1 that leads pods to it).
        egress: pods may reach the internet through a CONNECT proxy.
        volumes_folder: where provisioned volumes lie.
        images_folder: where nodes of several homes build images; None: in the home.
        grace_s: how long pods get when the node stops.
    """

    kubeconfig: Path
    services_kubeconfig: Path
    home: Path
    token_file: Path
    certificates: CertificateAccess | None
    name: str
    cpu_cores: int | None
    gpus: str
    forwards: tuple[tuple[int, int], ...]
    egress: bool
    node_ports: tuple[int, int]
    volumes_folder: Path
    images_folder: Path | None
    grace_s: float


def parse_options(arguments: list[str]) -> NodeOptions:
    """Read the command line; exits with a sentence when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m onebox.node",
        description="The node half of onebox: runs pods for a Kubernetes API server.",
    )
    parser.add_argument("--kubeconfig", type=Path, required=True, help="how to reach the API")
    parser.add_argument("--home", type=Path, required=True, help="folder for pods, logs, images")
    parser.add_argument("--node-name", default="onebox", help="name of the Node object")
    _add_joining_arguments(parser)
    add_node_arguments(parser)
    given = parser.parse_args(arguments)
    home = given.home.absolute()
    files = (given.tls_cert, given.tls_key, given.client_ca)
    if any(files) and not all(files):
        parser.error("--tls-cert, --tls-key and --client-ca go together")
    return NodeOptions(
        kubeconfig=given.kubeconfig,
        services_kubeconfig=given.services_kubeconfig or given.kubeconfig,
        certificates=CertificateAccess(*files, given.client_name) if all(files) else None,
        home=home,
        token_file=given.token_file or home / "token",
        name=given.node_name,
        cpu_cores=given.cpu,
        gpus=given.gpus,
        forwards=tuple(given.forward),
        egress=given.egress == "on",
        node_ports=given.node_port_range,
        volumes_folder=(given.volumes_dir or home / "volumes").absolute(),
        images_folder=given.images_dir,
        grace_s=given.grace,
    )


def _add_joining_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a control plane other than onebox's own needs."""
    group = parser.add_argument_group(
        "joining another control plane",
        "The node is system:node:NAME in the group system:nodes. Following Services and making "
        "volumes is no node's right: that takes a user with the ClusterRoles system:node-proxier "
        "and system:persistent-volume-provisioner.",
    )
    group.add_argument(
        "--services-kubeconfig",
        type=Path,
        metavar="FILE",
        help="who follows Services and makes volumes (default: as --kubeconfig)",
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate for 127.0.0.1")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="who signs the API server's certificate"
    )
    group.add_argument(
        "--client-name",
        default=API_SERVER,
        metavar="NAME",
        help=f"common name of the API server's certificate (default: {API_SERVER})",
    )
    group.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a shared token in place of certificates"
    )


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that the supervisor passes on unchanged."""
    parser.add_argument(
        "--cpu", type=_positive, metavar="N", help="CPUs to offer (default: max(8, 4 x cores))"
    )
    parser.add_argument(
        "--gpus",
        type=_gpus,
        default="auto",
        metavar="N|auto",
        help="GPUs to offer; auto: what nvidia-smi shows, else 4 simulated ones; 0: none",
    )
    parser.add_argument(
        "--forward",
        type=_forward,
        action="append",
        default=[],
        metavar="PORT[:POD_PORT]",
        help="make 127.0.0.1:PORT reachable for pods as 10.244.0.1:POD_PORT (default: 8000, the "
        "portal's); may be repeated",
    )
    parser.add_argument(
        "--egress", choices=("on", "off"), default="off", help="let pods reach the internet"
    )
    parser.add_argument(
        "--node-port-range",
        type=port_range,
        default=(30000, 32767),
        metavar="A-B",
        help="NodePorts (default: 30000-32767)",
    )
    parser.add_argument(
        "--volumes-dir",
        type=Path,
        metavar="DIR",
        help="where volumes lie, for example on a mounted GlusterFS (default: in the home)",
    )
    parser.add_argument(
        "--images-dir",
        type=_folder,
        default=os.environ.get("ONEBOX_IMAGES_DIR") or None,
        metavar="DIR",
        help="a folder of installed images that several homes of one user share (default: "
        "$ONEBOX_IMAGES_DIR, else in the home)",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long pods get to end when onebox stops (default: 10)",
    )


def port_range(text: str) -> tuple[int, int]:
    """Read "A-B".

    Raises:
        argparse.ArgumentTypeError: it is no range of ports.
    """
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of ports; write 30000-32767")
    return int(match[1]), int(match[2])


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number up to 65535")
    return int(text)


def _forward(text: str) -> tuple[int, int]:
    port, _, pod_port = text.partition(":")
    return _port(port), _port(pod_port) if pod_port else PORTAL_PORT


def _folder(text: str) -> Path:
    return Path(text).absolute()


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of CPUs; write 1 or more")
    return int(text)


def _gpus(text: str) -> str:
    if text != "auto" and not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs; write auto, 0 or more")
    return text
