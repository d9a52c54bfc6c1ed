"""The scripts by name, and how one is run on a cluster."""

from __future__ import annotations

import importlib
import pkgutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import overload

from portal.cluster import labels
from tests.contract import scripts
from tests.contract.kube import Json, Kube
from tests.contract.tape import CORE, Tape

NAMESPACE_LABELS = {
    labels.MANAGED_BY: labels.MANAGER,
    labels.OWNER: "contract",
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "v1.33",
    "pod-security.kubernetes.io/warn": "restricted",
    "pod-security.kubernetes.io/warn-version": "v1.33",
}


@dataclass(frozen=True)
class Script:
    """One behaviour as a sequence of requests.

    Attributes:
        name: "jobs.a_job_counts_its_pods"; the transcript lies in `jobs/a_job_counts_its_pods.yaml`.
        is_alone: it takes what others need, so it runs when they are over.
    """

    name: str
    run: Callable[[Tape], None]
    is_alone: bool = False

    @property
    def sentence(self) -> str:
        words = self.name.partition(".")[2].replace("_", " ")
        return words[:1].upper() + words[1:]


@dataclass
class _Registry:
    found: dict[str, Script] = field(default_factory=dict)


_registry = _Registry()


Play = Callable[[Tape], None]


@overload
def script(run: Play) -> Play: ...
@overload
def script(*, is_alone: bool) -> Callable[[Play], Play]: ...
def script(run: Play | None = None, *, is_alone: bool = False) -> Play | Callable[[Play], Play]:
    """Register a function that plays one behaviour; its name is the sentence."""

    def register(run: Play) -> Play:
        name = f"{run.__module__.rpartition('.')[2]}.{run.__name__}"
        assert name not in _registry.found, f"two scripts are called {name}"
        _registry.found[name] = Script(name, run, is_alone)
        return run

    return register(run) if run else register


def all_scripts() -> dict[str, Script]:
    """Every script, by name."""
    for module in pkgutil.iter_modules(scripts.__path__):
        importlib.import_module(f"{scripts.__name__}.{module.name}")
    return dict(sorted(_registry.found.items()))


@contextmanager
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace as the product makes them, ready for pods; it goes with what is in it."""
    name = f"contract-{uuid.uuid4().hex[:10]}"
    body = {"metadata": {"name": name, "labels": NAMESPACE_LABELS}}
    kube.must("POST", f"{CORE}/namespaces", body)
    try:
        # Until its account is there, pods are refused.
        kube.until(f"{CORE}/namespaces/{name}/serviceaccounts/default", bool)
        yield name
    finally:
        remove_namespace(kube, name)


def remove_namespace(kube: Kube, name: str) -> None:
    """Ask for the end of a namespace and of its pods, which no kubelet would end."""
    kube.send("DELETE", f"{CORE}/namespaces/{name}")
    options: Json = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    kube.send("DELETE", f"{CORE}/namespaces/{name}/pods", options)


def outcome(found: Script, kube: Kube) -> tuple[list[Json], Exception | None]:
    """Run a script; gives as much of its transcript as there is, and what stopped it."""
    steps: list[Json] = []
    try:
        with namespace(kube) as name:
            tape = Tape(kube, name)
            try:
                found.run(tape)
            finally:
                steps = tape.transcript
    except Exception as error:  # noqa: BLE001 - whatever it was is the test's result
        return steps, error
    return steps, None
