"""Builds the programs of an upstream control plane from Go modules, once for each version.

Each product is a build-only module beside this file: its go.mod and go.sum say what is built. The
programs lie in the user's cache, in a folder named after version and checksums, so a changed go.mod
builds anew and nothing of it is ever in the repository.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GO_MINOR = 26  # what the modules' go.mod asks for
_TOLD_EVERY_S = 10.0
# client-go has a copy of the version of its own, for the User-Agent.
_VERSIONED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class NoBinariesError(RuntimeError):
    """The programs are not there and cannot be built; the text says what to do."""


@dataclass(frozen=True)
class Product:
    """One module and its programs.

    Attributes:
        folder_name: where its go.mod lies, beside this file.
        module: the module path whose version names the build.
        programs: name of the file -> package.
        is_stamped: the version is linked in, as Kubernetes' own builds do; unstamped ones call
            themselves v0.0.0-master, which clients and admission take at its word.
    """

    name: str
    folder_name: str
    module: str
    programs: dict[str, str]
    is_stamped: bool = False

    @property
    def folder(self) -> Path:
        return HERE / self.folder_name

    @property
    def version(self) -> str:
        """As in go.mod, "v1.36.3".

        Raises:
            NoBinariesError: there is no such go.mod.
        """
        if not self.folder.is_dir():
            known = ", ".join(sorted(path.name for path in HERE.glob(f"{self.name}-*")))
            raise NoBinariesError(f"{self.folder_name} is not among {known}")
        found = re.search(
            rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)",
            (self.folder / "go.mod").read_text(),
            re.MULTILINE,
        )
        assert found is not None, f"{self.folder}/go.mod does not require {self.module}"
        return found[1]

    @property
    def cache(self) -> Path:
        """Where its programs lie, built or not."""
        said = (self.folder / "go.mod").read_bytes() + (self.folder / "go.sum").read_bytes()
        return cache_root() / f"{self.name}-{self.version}-{hashlib.sha256(said).hexdigest()[:8]}"

    def linked_in(self) -> str:
        """The linker's flags."""
        flags = ["-s", "-w"]
        if self.is_stamped:
            major, minor, _ = self.version.lstrip("v").split(".", 2)
            stamp = {
                "gitVersion": self.version,
                "gitMajor": major,
                "gitMinor": minor,
                "gitCommit": self.version,
                "gitTreeState": "archive",
                "buildDate": "1970-01-01T00:00:00Z",
            }
            flags += [
                f"-X {path}.{key}={text}" for path in _VERSIONED for key, text in stamp.items()
            ]
        return " ".join(flags)


def kubernetes(minor: str) -> Product:
    """The control plane of a minor version that a go.mod is here for, such as "1.36"."""
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    return Product(
        "kubernetes",
        f"kubernetes-{minor}",
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in names},
        is_stamped=True,
    )


KUBERNETES = kubernetes(os.environ.get("TESTCLUSTER_KUBERNETES") or "1.36")
ETCD = Product("etcd", "etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KWOK = Product("kwok", "kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})


def cache_root() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "homeport" / "testcluster"


def find_go() -> str | None:
    """Path of a Go that is new enough; None when there is none."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/go/bin"])
    go = shutil.which("go", path=places)
    if go is None:
        return None
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go1\.(\d+)", said.stdout)
    return go if found and int(found[1]) >= GO_MINOR else None


def program(product: Product, name: str, say: Callable[[str], None] = print) -> Path:
    """Path of a product's program; builds what is missing, telling how far it is.

    Raises:
        NoBinariesError: there is no Go, or the build failed.
    """
    target = product.cache / name
    if not target.exists():
        _build(product, name, target, say)
    return target


def is_built(*products: Product) -> bool:
    """Whether nothing of these products would have to be built."""
    return all((p.cache / name).exists() for p in products for name in p.programs)


def _build(product: Product, name: str, target: Path, say: Callable[[str], None]) -> None:
    go = find_go()
    if go is None:
        raise NoBinariesError(
            f"{name} {product.version} has to be built once, which needs Go 1.{GO_MINOR} or newer "
            "(https://go.dev/dl). Install it, or name a cluster of yours in CONTRACT_KUBECONFIG."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{name}.{os.getpid()}")
    command = [go, "build", "-v", "-trimpath", "-tags", "grpcnotrace"]
    command += ["-ldflags", product.linked_in(), "-o", str(unfinished), product.programs[name]]
    # The modules' own go.mod decides everything; a user's settings must not.
    environ = os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
    }
    started = time.monotonic()
    say(f"building {name} {product.version} (once) ...")
    with subprocess.Popen(
        command, cwd=product.folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as build:
        words = _follow(build, name, started, say)
    if build.returncode:
        unfinished.unlink(missing_ok=True)
        raise NoBinariesError(f"{name} could not be built:\n{''.join(words[-15:])}")
    unfinished.rename(target)
    say(f"built {name} in {time.monotonic() - started:.0f} s")


def _follow(
    build: subprocess.Popen[str], name: str, started: float, say: Callable[[str], None]
) -> list[str]:
    """Tell how many packages are compiled; returns what the compiler said."""
    words: list[str] = []
    told = started
    for line in build.stderr or ():
        words.append(line)
        now = time.monotonic()
        if now - told > _TOLD_EVERY_S:
            told = now
            say(f"  {name}: {len(words)} packages after {now - started:.0f} s")
    return words
