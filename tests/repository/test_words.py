"""A name that has given way to a term of the field does not come back to its room.

Whole identifiers and names of modules, as they are written. Left out: migrations, strings (stored keys),
names of the files that stored manifests start, and the embedded cluster, which is a package of its own.
"""

import io
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.repository.test_documents import ROOT, SOURCES, tracked

# Their names are those of files that pods of older versions were started with.
KEPT_FILE_NAMES = Path("jobs/pod")
# room -> old identifier and what is said instead; each was there before it gave way
WORDS: dict[str, dict[str, str]] = {
    "portal/cluster": {
        "Shelf": "Informer",
        "ClusterView": "ClusterCache",
        "view": "cache",
        "Watch": "ListWatch",
        "Selection": "ListOptions",
        "Change": "WatchEvent",
        "PodSeen": "KubePod",
        "JobSeen": "KubeJob",
        "NodeSeen": "KubeNode",
        "EventSeen": "KubeEvent",
        "ServiceSeen": "KubeService",
        "DeploymentSeen": "KubeDeployment",
        "NamespaceSeen": "KubeNamespace",
        "QuotaSeen": "KubeQuota",
        "PVCSeen": "KubePVC",
        "SpecSeen": "KubeSpecOnly",
        "Seen": "KubeStruct",
        "ServiceAccountSeen": "KubeServiceAccount",
        "RoleBindingSeen": "KubeRoleBinding",
        "Marks": "ObjectMeta",
        "MetaOnly": "PartialObjectMetadata",
        "Dirty": "Changes",
        "Outage": "ReconnectGate",
        "Pace": "WatchTiming",
        "Requests": "Resources",
        "held_of": "requested_on",
        "bucket": "ratelimit",
        "Kind": "ResourceKind",
        "Rights": "AccountAccess",
        "Answer": "LogResponse",
        "take_dirty": "take_changes",
    },
    "jobs/engine": {
        "RowsPass": "Controller",
        "JobsPass": "Controller",
        "ServicesPass": "Controller",
        "look_around": "resync",
        "hurry": "retry_now",
        "Knowledge": "CallResults",
        "Applier": "Executor",
        "Head": "WorkloadRow",
        "Rooted": "WorkloadRow",
        "OfJob": "WorkloadRow",
        "Ticks": "TickTimes",
        "LastTrouble": "LastError",
        "ClusterView": "ClusterCache",
        "JobsView": "ClusterCache",
        "RowDraft": "Lifecycle",
        "UsagePass": "UsageRecorder",
        "PodSeen": "KubePod",
        "Shift": "LeaderRun",
        "Look": "Turn",
        "Result": "StepResult",
        "Saved": "ChangedRow",
        "Room": "Capacity",
        "Waiting": "Queued",
        "Verdict": "Decision",
        "verdicts": "decisions",
        "Claim": "Admission",
        "claim": "admission",
        "admission_pass": "admission",
    },
    "jobs/kinds": {
        "Draft": "Lifecycle",
        "RowDraft": "Lifecycle",
        "Thing": "ObjectRef",
        "Server": "ServerDeployment",
        "Door": "GateService",
        "erase": "purge",
        "Verdict": "Outcome",
        "memo": "notes",
        "Memo": "Notes",
        "Head": "WorkloadRow",
        "Rooted": "WorkloadRow",
        "OfJob": "WorkloadRow",
        "Trade": "WorkloadKind",
        "Knowledge": "CallResults",
        "JobRow": "WorkloadRow",
        "ServiceRow": "WorkloadRow",
    },
    "jobs": {
        "Trade": "WorkloadKind",
        "RowsPass": "Controller",
        "Applier": "Executor",
        "RowDraft": "Lifecycle",
        "UsagePass": "UsageRecorder",
        "PodSeen": "KubePod",
        "JobsView": "ClusterCache",
        "ClusterView": "ClusterCache",
        "Knowledge": "CallResults",
        "autospec": "hosts",
        "most_telling": "most_specific",
        "shows_already": "is_unchanged",
        "wants_part": "wants_fragment",
        "internal": "pod_api",
        "gate_door": "pod_api",
        "DoorError": "PodApiError",
        "NodeRoom": "NodeCapacity",
        "TenantRoom": "QuotaHeadroom",
        "QueuedJob": "Queued",
        "HoldingJob": "Admitted",
        "Need": "ReplicaRequest",
        "SetSuspended": "PatchRoot",
        "Scale": "PatchRoot",
        "departed": "deleted_pods",
        "_departed": "_deleted_pods",
        "note_departed": "note_deleted_pod",
        "JobEvent": "WorkloadEvent",
        "ServiceEvent": "WorkloadEvent",
        "JobState": "WorkloadState",
        "ServiceState": "WorkloadState",
        "JobQuerySet": "WorkloadQuerySet",
        "ServiceQuerySet": "WorkloadQuerySet",
        "ServiceRequest": "NotebookSpec, TensorBoardSpec",
        "Submission": "TrainingSpec",
        "seen_start": "observed_generation",
        "memo": "notes",
        "needs_of": "requests_of",
        "need_of": "requests",
        "fit_needs": "fit",
        "node_rooms": "node_capacities",
    },
    "jobs/rules": {
        "autospec": "hosts",
        "most_telling": "most_specific",
        "Place": "QueueEntry",
        "Waiting": "Queued",
        "Verdict": "Decision",
        "verdicts": "decisions",
        "Wait": "WaitingPod",
        "Said": "TerminationMessage",
        "End": "ContainerExit",
    },
    "jobs/pod": {
        "Task": "ReplicaContext",
        "Places": "Paths",
        "Door": "PortalClient",
        "Patience": "RetryBudget",
        "Teller": "EventFileReporter",
    },
    "jobs/pod/gatekeeper": {
        "Standing": "AccessList",
        "Pass": "Claims",
        "passes": "tickets",
        "Inbox": "RawReader",
        "Opened": "OpenConnection",
        "_goodbye": "_close_handshake",
    },
    "tenants": {
        "Surroundings": "ClaimContext",
        "Tended": "SyncResult",
        "Standing": "TenantStatus",
        "Story": "Blockers",
        "Held": "Blocker",
        "is_shut": "quota_closed",
        "welcome": "on_sign_in",
        "home_of": "current_tenant_of",
        "living": "existing",
        "Deed": "AuditSentence",
        "Happening": "HistoryEntry",
        "Try": "SignInAttempt",
        "Conversation": "OIDCAdapter",
        "Hooks": "AccountAdapter",
        "Peer": "EgressPeer",
        "Access": "RoleGrant",
        "ClusterView": "ClusterCache",
        "shows_already": "is_unchanged",
        "wants_part": "wants_fragment",
        "Part": "ObjectStatus",
        "Outcome": "TenantUpdate",
        "judge": "compare",
        "tend": "reconcile",
        "QuotaError": "Refused",
        "RefusedError": "Refused",
        "WordsError": "Refused",
        "Verb": "VERBS",
        "carry_out": "VERBS",
        "read_words": "WordsSerializer",
        "StatementError": "InvalidIdTokenError",
        "NotWelcomeError": "Refused",
        "TenantReconciler": "TenantController",
    },
    "tenants/reconcile": {
        "tend": "reconcile",
        "judge": "compare",
        "Verdict": "Difference",
        "Part": "ObjectStatus",
        "stand": "status_of",
        "life": "status",
        "Outcome": "TenantUpdate",
    },
    "jobs/fleet": {
        "Lamp": "Check",
        "lamps": "checks",
        "lamp": "check",
        "ground": "dependencies",
        "Remark": "NodeNote",
        "remark": "note",
        "remarks": "notes",
        "Holder": "GpuUser",
        "Holders": "GpuUsers",
        "Place": "QueueEntry",
        "places": "entries",
        "_Waiting": "_Queued",
    },
    "jobs/team": {
        "Holding": "TenantUsage",
        "holding": "usage",
        "holdings": "quotas",
        "TeamHoldings": "TeamQuotas",
        "TeamWork": "TeamWorkloads",
        "WorkRow": "TeamWorkload",
        "work": "workload",
        "pressure": "utilisation",
        "pressure_of": "utilisation_of",
    },
    "jobs/usage": {
        "Span": "PodInterval",
        "span": "interval",
        "spans": "intervals",
        "span_of": "interval_of",
        "recording": "intervals",
        "UsagePass": "UsageRecorder",
        "usage_pass": "recorder",
        "News": "IntervalChanges",
        "news": "changes",
    },
    "portal": {
        "Shell": "Layout",
        "wording": "format",
        "StoreDoor": "FolderStoreApp",
        "Grant": "SignedLink",
        "shows_already": "is_unchanged",
        "wants_part": "wants_fragment",
        "CatalogError": "ConfigurationError",
        "SettingError": "ConfigurationError",
        "ManifestError": "ConfigurationError",
        "BadKeyError": "StoreError",
        "BadLinkError": "StoreError",
        "RequestError": "Refused",
    },
    "jobs/logs": {
        "Feed": "ReplicaSource",
        "feeds": "sources",
        "JobSeen": "JobLogState",
        "ReplicaSeen": "ReplicaLogState",
        "seen": "state",
        "look": "load",
        "_look": "_load",
        "choice": "source",
        "Beginning": "StartPoint",
        "begin": "start_point",
    },
    "jobs/client": {
        "harmless": "sanitize",
        "submit_words": "options",
        "showing": "get",
        "ending": "stop",
        "following": "follow",
        "Wanted": "SubmitRequest",
        "Over": "StreamEnd",
    },
    "jobs/pod_api": {
        "DoorError": "PodApiError",
        "door": "pod_view",
        "doors": "pod_api",
    },
}


@cache
def names_below(room: str) -> dict[str, list[str]]:
    """Identifier -> the modules of a room that have it."""
    found: dict[str, list[str]] = {}
    for path in tracked():
        name = path.relative_to(ROOT)
        if path.suffix != ".py" or not name.is_relative_to(room) or "migrations" in name.parts:
            continue
        for word in _names_in(path):
            found.setdefault(word, []).append(str(name))
    return found


@cache
def _names_in(path: Path) -> frozenset[str]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    is_kept = path.is_relative_to(ROOT / KEPT_FILE_NAMES)
    return frozenset(names if is_kept else {*names, path.stem, path.parent.name})


@pytest.mark.parametrize("room", WORDS)
def test_old_names_stay_away(room: str) -> None:
    assert room.split("/")[0] in SOURCES
    assert (ROOT / room).is_dir(), f"{room} has moved: its names go with it"
    names = names_below(room)
    back = {f"{old} ({new})": names[old] for old, new in WORDS[room].items() if old in names}
    assert not back, f"in {room} these are called as in brackets: {back}"
