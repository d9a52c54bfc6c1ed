"""What a node's programs are made of: Go modules, as the control plane's, and Debian's packages.

The packages are unpacked into the user's cache, never installed; a node sees them through an
overlay on its own /usr.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.binaries import NoBinariesError, Product

KUBELET = Product(
    "kubernetes",
    "kubernetes-1.37",
    "k8s.io/kubernetes",
    {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
    is_stamped=True,
)
KUBE_ROUTER = Product(
    "kube-router",
    "nodes/kube-router",
    "github.com/k3s-io/kube-router/v2",
    {"kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"},
)
COREDNS = Product(
    "coredns",
    "nodes/coredns",
    "github.com/coredns/coredns",
    {"coredns": ".", "pause": "./pause"},
)
LOCAL_PATH = Product(
    "local-path-provisioner",
    "nodes/local-path",
    "github.com/rancher/local-path-provisioner",
    {"local-path-provisioner": "github.com/rancher/local-path-provisioner"},
)
PRODUCTS = (KUBELET, KUBE_ROUTER, COREDNS, LOCAL_PATH)
PACKAGES = (
    *("containerd", "runc", "containernetworking-plugins"),
    *(
        "iptables",
        "libxtables12",
        "libip4tc2",
        "libip6tc2",
        "libnftnl11",
        "libmnl0",
        "libnfnetlink0",
    ),
    *("ipset", "libipset13", "conntrack", "libnetfilter-conntrack3", "libseccomp2", "debootstrap"),
    *("glusterfs-server", "glusterfs-client", "glusterfs-common", "glusterfs-cli", "liburcu8"),
    *("libglusterfs0", "libglusterd0", "libgfapi0", "libgfrpc0", "libgfxdr0", "libaio1"),
    "libfaketime",  # with which tests set clocks apart, that no namespace keeps
)
FAKETIME = "usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
_MULTI = ("iptables", "ip6tables")


def packages(say: Callable[[str], None] = print) -> Path:
    """The folder with `usr` of Debian's packages; fetches and unpacks them where it is missing.

    Raises:
        NoBinariesError: this machine's apt cannot fetch them.
    """
    name = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    target = binaries.cache_root() / f"packages-{name}"
    if target.exists():
        return target
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    (unfinished / "deb").mkdir(parents=True)
    say(f"fetching Debian's packages of a node into {target} (once, 110 MB) ...")
    try:
        _apt("download", *PACKAGES, folder=unfinished / "deb")
        for package in sorted((unfinished / "deb").iterdir()):
            subprocess.run(["dpkg", "-x", package, unfinished], check=True)
        shutil.rmtree(unfinished / "deb")
        for command in _MULTI:
            for suffix in ("", "-save", "-restore"):
                link = unfinished / "usr" / "sbin" / f"{command}{suffix}"
                link.unlink(missing_ok=True)
                link.symlink_to("xtables-nft-multi")
        _merge(unfinished)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _merge(root: Path) -> None:
    """Move /sbin, /bin and /lib into /usr, where they are links on the machine."""
    for name in ("sbin", "bin", "lib"):
        if (root / name).is_dir():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / name)


def _apt(*words: str, folder: Path) -> None:
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoBinariesError("there is no apt-get here: nodes are tried on Debian 12") from error
    if done.returncode:
        raise NoBinariesError(
            f"Debian's packages of a node cannot be fetched; try `apt-get update`:\n{done.stderr}"
        )


def why_not(say: Callable[[str], None] = print) -> str:
    """Why nodes cannot be run on this machine; "" when they can."""
    if os.geteuid() != 0:
        return "nodes need root"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return f"this machine gives no namespaces: {tried.stderr.strip()}"
    for need in ("ip", "nsenter", "setpriv", "apt-get", "dpkg"):
        if shutil.which(need) is None:
            return f"there is no program {need} here"
    return binaries.why_not(binaries.KUBERNETES, binaries.ETCD, *PRODUCTS, say=say)


def prepare(say: Callable[[str], None] = print) -> None:
    """Build and fetch all that is missing, first what clusters without nodes need, too.

    Raises:
        NoBinariesError: it cannot be had.
    """
    for product in (binaries.KUBERNETES, binaries.ETCD, KUBELET, KUBE_ROUTER, COREDNS, LOCAL_PATH):
        for name in product.programs:
            binaries.program(product, name, say)
    packages(say)


if __name__ == "__main__":
    prepare()
