"""The plain data that planning works on: a service's row and what the cluster shows of it.

Frozen and without I/O, so that every situation can be written down in a test.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from jobs.reconciler.record import Thing
from jobs.rules.endings import Disruption, End
from jobs.rules.reasons import Reason
from jobs.services.models import ServiceState
from jobs.services.reconciler.memo import Memo
from jobs.services.reconciler.steps import Step


@dataclass(frozen=True)
class ServiceRow:
    """A service's row, with what planning needs of its tenant; columns as in the model.

    Attributes:
        kube_name: NAME of the objects of the start that is seen (`seen_start`).
        memory: limit as text, for sentences.
        stopped_by: name of the person who asked for the stop, empty when it was the owner.
        tenant_closed: "", "suspended" or "deleting".
        is_owner_active: whether the owner may still sign in.
        has_plan: whether the manifests of this start have been rendered.
    """

    id: str
    namespace: str
    kube_name: str
    kind: str
    image: str
    memory: str
    requested_at: datetime
    start_count: int = 1
    seen_start: int = 0
    desired: str = "run"
    stop_reason: str = ""
    stopped_by: str = ""
    tenant_closed: str = ""
    is_owner_active: bool = True
    state: ServiceState = ServiceState.QUEUED
    reason: Reason = field(default_factory=Reason)
    steps: tuple[Step, ...] = ()
    admitted_at: datetime | None = None
    ready_at: datetime | None = None
    ended_at: datetime | None = None
    not_before: datetime | None = None
    node: str = ""
    gpus: str = ""
    pod: str = ""
    node_port: int | None = None
    restarts: int = 0
    event_files: int | None = None
    has_plan: bool = False
    root_uid: str = ""
    cleaned_at: datetime | None = None
    memo: Memo = field(default_factory=Memo)

    @property
    def root_name(self) -> str:
        return self.kube_name

    @property
    def who(self) -> str:
        """As sentences name it."""
        return "the notebook" if self.kind == "notebook" else "the TensorBoard"

    @property
    def program(self) -> str:
        """What runs in it."""
        return "JupyterLab" if self.kind == "notebook" else "TensorBoard"


@dataclass(frozen=True)
class Root(Thing):
    """The Deployment; `refused` is why its pod cannot be made, else empty."""

    replicas: int = 0
    refused: str = ""


@dataclass(frozen=True)
class Door(Thing):
    """The NodePort Service."""

    node_port: int | None = None


@dataclass(frozen=True)
class PodFacts(Thing):
    """The pod of a service. Times are the cluster's: for showing, never for timers.

    Attributes:
        scheduled_at: when it got its node.
        prepared_from: when its first container was started: the volumes were there.
        pull: latest news of the app's image, as the cluster words it.
        pulled_at: when that image was there.
        waiting_in: which container holds things up: prepare, gate, app; empty when none does.
        prepare_end: how `prepare` failed; None when it has not.
        is_running: the app runs.
        started_at: when it was started.
        end: how the app's latest run ended, when it is not running again yet.
        last_end: how the run before this one ended.
        restarts: of the app, within this pod.
        is_ready: the gate answers, and the app behind it.
        probe_problem: the latest words of a failing probe.
        disruption: the cluster took the pod away; None when not.
    """

    phase: str = "Pending"
    created_at: datetime | None = None
    node: str = ""
    gpus: str = ""
    scheduled_at: datetime | None = None
    unplaced_why: str = ""
    prepared_from: datetime | None = None
    mount_problem: str = ""
    pull: str = ""
    pulled_at: datetime | None = None
    waiting_in: Literal["", "prepare", "gate", "app"] = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    prepare_end: End | None = None
    gate_end: End | None = None
    is_running: bool = False
    started_at: datetime | None = None
    end: End | None = None
    last_end: End | None = None
    restarts: int = 0
    is_ready: bool = False
    ready_at: datetime | None = None
    probe_problem: str = ""
    disruption: Disruption | None = None
    pod_message: str = ""

    @property
    def has_ended(self) -> bool:
        """Nothing of it will run again."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True)
class Observed:
    """All that is known of one service's objects at one moment.

    Attributes:
        is_current: the watches work; absence and age mean something.
        namespace: "active", "terminating" or "gone".
        root: the Deployment of the start that is seen.
        is_root_absent: a fresh read said that it does not exist.
        made_root: uid of the root that our last steps made together with all that it owns.
        is_swept: our last steps removed what no watch shows.
        blocked, trouble: why its objects can never, or cannot now, be made.
        doors: Services of this start.
        others: objects of other starts.
        pods: of this start, the newest last.
        departed: pods that went since the last look, with their last status.
    """

    is_current: bool = True
    namespace: Literal["active", "terminating", "gone"] = "active"
    root: Root | None = None
    is_root_absent: bool = False
    made_root: str = ""
    is_swept: bool = False
    blocked: Reason = field(default_factory=Reason)
    trouble: Reason = field(default_factory=Reason)
    doors: tuple[Door, ...] = ()
    others: tuple[Thing, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    departed: tuple[PodFacts, ...] = ()

    @property
    def pod(self) -> PodFacts | None:
        """The one that counts: the newest that is not on its way out, else the newest."""
        staying = [pod for pod in self.pods if not pod.is_terminating and not pod.has_ended]
        found = staying or list(self.pods)
        return found[-1] if found else None
