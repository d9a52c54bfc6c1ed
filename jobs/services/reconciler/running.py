"""What the pod of a service shows, and what follows from it: steps, reasons, restarts, giving up. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from jobs.pod.protocol import codes
from jobs.rules import endings, patterns, reasons, waits
from jobs.rules.endings import End
from jobs.rules.reasons import Reason
from jobs.services.models import ServiceState
from jobs.services.reconciler import leaving
from jobs.services.reconciler.draft import Draft
from jobs.services.reconciler.record import PodFacts

PLACE_S = 300  # not placed in time: everything is given back
PROBLEM_S = 600  # an image or a set-up that fails for so long will not get better by itself
ANSWER_S = 600  # a program that has not answered by then never will
SILENCE_S = 30  # a busy program may be slow to answer
CRASHES_MAX = 3
CRASH_WINDOW = timedelta(minutes=10)
# The last one is a runtime's own, for a container that it could not start.
_NO_PYTHON = frozenset({codes.EXIT_NOT_EXECUTABLE, codes.EXIT_NOT_FOUND, codes.SIGNAL_BASE})
_START_ERRORS = frozenset({"StartError", "ContainerCannotRun", "CreateContainerError"})
# Families of reasons. These waits may be cured by room; the others by a repair.
_PLACING = frozenset({"", "creating", "placing", "quota_refused", "refused", "leftover"})
_PROBLEMS = frozenset(
    {
        "image_pull",
        "image_name",
        "container_config",
        "volume",
        "volume_full",
        "volume_not_writable",
        "prepare_failed",
        "gate_failed",
    }
)


def follow(draft: Draft) -> None:
    """What the pod means for the state."""
    pod = draft.seen.pod
    _note_replaced(draft, pod)
    if pod is not None:
        draft.set(pod=pod.name, node=pod.node, gpus=pod.gpus)
        if _note_ends(draft, pod):
            return
    show(draft)
    if pod is not None and pod.is_ready and pod.is_running and not pod.is_terminating:
        _answers(draft)
    elif pod is not None and _runs_on(draft, pod):
        _is_silent(draft, pod)
    else:
        _starts(draft, pod)


# --- ends ---
def _note_replaced(draft: Draft, pod: PodFacts | None) -> None:
    """Another pod than the one before: the cluster, or somebody, took it away."""
    before = draft.memo.pod_uid
    if pod is None or pod.uid == before:
        return
    draft.note(pod_uid=pod.uid, pod_restarts=0, running_since=None)
    if not before:
        return
    # The steps begin again with the new pod.
    draft.set(restarts=draft.row.restarts + 1, steps=draft.row.steps[:2])
    known = [*draft.seen.departed, *draft.seen.pods]
    gone = next((old for old in known if old.uid == before), None)
    if gone is not None and gone.disruption is not None:
        _again(draft, endings.reason_of_disruption(draft.row.who, gone.disruption))
    elif gone is not None and gone.phase == "Failed" and gone.pod_message:
        detail = reasons.clip(gone.pod_message)
        _again(draft, reasons.make("evicted_retrying", who=draft.row.who, detail=detail))
    else:
        _again(draft, reasons.make("replaced", who=draft.row.who))


def _again(draft: Draft, why: Reason) -> None:
    draft.say(why.code, why.text, warning=True)
    draft.note(again=(why.code, why.text, why.next_step))


def _note_ends(draft: Draft, pod: PodFacts) -> bool:
    """Counts the ends of the program within the pod; True when that was the last one."""
    count = pod.restarts + (1 if pod.end is not None else 0)
    fresh = count - draft.memo.pod_restarts
    end = pod.end or pod.last_end
    if fresh <= 0 or end is None or pod.is_terminating:
        return False
    draft.note(pod_restarts=count, running_since=None)
    if end.exit_code == 0 and draft.memo.was_ready:
        leaving.begin(draft, "stop", reasons.make("shut_down", program=draft.row.program))
        return True
    cause = reason_of_end(draft, end)
    if cause.code == "app_missing":
        _give_up(draft, cause)
        return True
    draft.set(restarts=draft.row.restarts + fresh)
    kept = [at for at in draft.memo.crashes if _is_recent(draft, at)]
    crashes = (*kept, *[draft.now.isoformat()] * fresh)[-CRASHES_MAX:]
    draft.note(crashes=crashes)
    if len(crashes) >= CRASHES_MAX:
        who, text = draft.row.who, cause.text
        why = reasons.make("app_crash_loop", who=who, count=CRASHES_MAX, cause=text)
        _give_up(draft, replace(why, next_step=cause.next_step or why.next_step))
        return True
    _again(draft, reasons.make("app_restarting", cause=cause.text))
    return False


def _is_recent(draft: Draft, at: str) -> bool:
    return draft.now - datetime.fromisoformat(at) < CRASH_WINDOW


def reason_of_end(draft: Draft, end: End) -> Reason:
    """Why the program ended, with its last words."""
    row = draft.row
    words = reasons.clip(end.message[-500:])
    no_python = end.exit_code in _NO_PYTHON and end.cluster_reason in _START_ERRORS
    if no_python or end.exit_code in {codes.EXIT_NO_PROGRAM, codes.EXIT_NOT_FOUND}:
        detail = words or "it has no Python"
        facts = {"image": row.image, "program": row.program, "detail": detail}
        return reasons.make("app_missing", **facts)
    if end.exit_code == 0:
        return reasons.make("app_ended", program=row.program, detail=words or "it said nothing")
    found = endings.reason_of_end(row.program, end, row.memory)
    if words and found.code in {"exit_code", "signal"}:
        return replace(found, text=f"{found.text} Its last words: {words}")
    return found


def _give_up(draft: Draft, why: Reason) -> None:
    show(draft, why.text, failed=True)
    leaving.begin(draft, "fail", why)


# --- states ---
def _answers(draft: Draft) -> None:
    if draft.row.state is not ServiceState.RUNNING:
        draft.turn(ServiceState.RUNNING)
    draft.note(
        was_ready=True,
        again=(),
        starting_since=None,
        problem_since=None,
        running_since=None,
        silent_since=None,
    )
    draft.explain(reasons.NONE)
    if draft.row.ready_at is None:
        draft.set(ready_at=draft.now)


def _runs_on(draft: Draft, pod: PodFacts) -> bool:
    """The program that answered once still runs: a slow answer is no new start."""
    is_running = draft.row.state is ServiceState.RUNNING
    return is_running and pod.is_running and not pod.is_terminating


def _is_silent(draft: Draft, pod: PodFacts) -> None:
    if draft.memo.silent_since is None:
        draft.note(silent_since=draft.now)
    if draft.is_past(draft.memo.silent_since, SILENCE_S):
        detail = probe_words(pod)
        facts = {"program": draft.row.program, "detail": detail}
        draft.explain(reasons.make("not_answering", **facts))


def _starts(draft: Draft, pod: PodFacts | None) -> None:
    """It does not run yet: says why, and gives up, or gives back, when that lasts."""
    waiting = reason_of_wait(draft, pod)
    family = patterns.family_of(waiting.code)
    again = Reason(*draft.memo.again) if draft.memo.again else reasons.NONE
    is_telling = family in _PROBLEMS | {"placing", "quota_refused"} or not again.code
    draft.turn(ServiceState.STARTING, waiting if is_telling else again)
    draft.note(silent_since=None)
    if draft.memo.starting_since is None:
        draft.note(starting_since=draft.now)
    if family in _PROBLEMS:
        if draft.memo.problem_since is None:
            draft.note(problem_since=draft.now)
        is_hopeless = family in waits.HOPELESS
        if is_hopeless or draft.is_past(draft.memo.problem_since, PROBLEM_S):
            _give_up(draft, waiting)
            return
    else:
        draft.note(problem_since=None)
    if pod is not None and pod.is_running:
        if draft.memo.running_since is None:
            draft.note(running_since=draft.now)
        if draft.is_past(draft.memo.running_since, ANSWER_S):
            facts = {
                "program": draft.row.program,
                "waited": reasons.duration_text(ANSWER_S),
                "detail": probe_words(pod),
            }
            _give_up(draft, reasons.make("never_ready", **facts))
            return
    withdraw_late(draft, waiting)


def withdraw_late(draft: Draft, waiting: Reason) -> None:
    """Our packing was only a guess about the scheduler: what was not placed is given back."""
    pod = draft.seen.pod
    if (pod is not None and pod.node) or patterns.family_of(waiting.code) not in _PLACING:
        return
    if not draft.seen.is_current or not draft.is_past(draft.memo.starting_since, PLACE_S):
        return
    detail = waiting.text or "The cluster has not said why."
    why = reasons.make("not_placed", waited=reasons.duration_text(PLACE_S), detail=detail)
    draft.say("withdrawn", why.text, warning=True)
    leaving.begin(draft, "queue", why)


# --- words ---
def reason_of_wait(draft: Draft, pod: PodFacts | None) -> Reason:
    """Why the program does not answer yet, as specific as can be told."""
    row, root = draft.row, draft.seen.root
    if pod is None or pod.is_terminating or pod.has_ended:
        if root is not None and root.refused:
            code = patterns.find_code("quota_refused", root.refused)
            return reasons.make(code, who=row.who, detail=root.refused)
        return reasons.make("creating")
    if pod.is_running:
        return reasons.make("app_starting", program=row.program)
    if pod.prepare_end is not None:
        return _prepare_failed(row.who, pod.prepare_end)
    if pod.gate_end is not None:
        detail = reasons.clip(pod.gate_end.message[-500:]) or "it said nothing"
        return reasons.make("gate_failed", detail=detail)
    return waits.reason_of_wait(
        waits.Wait(
            row.who,
            row.image if pod.waiting_in == "app" else "of Homeport's own helpers",
            node=pod.node,
            unplaced_why=pod.unplaced_why,
            waiting_reason=pod.waiting_reason,
            waiting_message=pod.waiting_message,
            mount_problem=pod.mount_problem if pod.prepared_from is None else "",
        )
    )


def _prepare_failed(who: str, end: End) -> Reason:
    said = end.said
    if said.reason in {"volume_full", "volume_not_writable"}:
        return reasons.make(said.reason, who=who, detail=said.text)
    detail = said.text or end.message or f"exit code {end.exit_code}"
    return reasons.make("prepare_failed", detail=detail)


def probe_words(pod: PodFacts) -> str:
    """Why the gate says that the program does not answer."""
    return pod.probe_problem.partition("probe failed: ")[2] or pod.probe_problem or "no answer yet"


# --- steps ---
def show(draft: Draft, problem: str = "", *, failed: bool = False) -> None:
    """Writes the start-up's steps as the pod shows them."""
    row, pod = draft.row, draft.seen.pod
    done: list[tuple[datetime | None, str]] = [(row.requested_at, ""), (row.admitted_at, "")]
    if pod is None or pod.is_terminating or pod.has_ended:
        detail = problem or reason_of_wait(draft, None).text
        draft.show(done, detail=detail, failed=failed)
        return
    detail = problem or _problem_words(draft, pod)
    if pod.node:
        done.append((pod.scheduled_at, f"on {pod.node}"))
    has_volumes = bool(pod.node) and pod.prepared_from is not None and pod.prepare_end is None
    if has_volumes:
        done.append((pod.prepared_from, ""))
    is_image_there = pod.pulled_at is not None or pod.is_running or pod.restarts > 0
    if has_volumes and is_image_there:
        # "Pulling image" is no word for what is done; not every node says more.
        done.append((pod.pulled_at, pod.pull if pod.pulled_at else ""))
        if pod.is_running:
            done.append((pod.started_at, ""))
            if pod.is_ready:
                done.append((pod.ready_at, ""))
    elif has_volumes and not detail:
        detail = pod.pull
    draft.show(done, detail=detail, failed=failed)


def _problem_words(draft: Draft, pod: PodFacts) -> str:
    """The cause in one line when something hangs; empty while all goes its way."""
    reason = reason_of_wait(draft, pod)
    if patterns.family_of(reason.code) in _PROBLEMS | {"placing"}:
        return reason.text
    if pod.is_running and pod.probe_problem:
        return probe_words(pod)
    return ""
