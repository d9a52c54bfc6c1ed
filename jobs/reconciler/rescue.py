"""When the archive of a job is complete, and when a rescue pod must finish it. Pure.

The runner in each pod uploads its log and artifacts and then marks it done. What dies without that
mark (out of memory as a whole, evicted, killed) has left everything on the log volume: a rescue pod
uploads it from there.
"""

from jobs.reconciler.draft import Draft
from jobs.reconciler.record import PodFacts, ReplicaKey, ReplicaRow, Rescue

MARK_S = 20  # the mark may take so long to arrive after the last pod has ended
TRIES = 3
ALL_TRIES_S = 3600  # bounds them all, also those that quota or scheduler hold up
STUCK_S = 1800 + 300  # a rescue pod's own deadline, and time to be placed


def archive(draft: Draft) -> bool:
    """Sees to the archive; True when it is complete or nothing more can be done for it."""
    if not draft.memo.archive:
        if not _see_to_all(draft, _started(draft)):
            return False
        draft.note(archive="complete" if not draft.memo.lost else "partial")
    draft.delete(*draft.seen.rescues)
    return True


def archive_ended(draft: Draft) -> bool:
    """Like `archive`, for those that have ended while others are kept running."""
    running = {pod.key for pod in draft.seen.pods if not pod.has_ended}
    return _see_to_all(draft, [key for key in _started(draft) if key not in running])


def _see_to_all(draft: Draft, keys: list[ReplicaKey]) -> bool:
    if draft.memo.pods_ended_at is None:
        draft.note(pods_ended_at=draft.now)
    missing = [key for key in keys if not _is_archived(draft, key)]
    if not missing:
        return True
    if draft.seen.namespace != "active" and draft.seen.is_current:
        _give_up(draft, missing, "the namespace is gone")
        return True
    if not draft.is_past(draft.memo.pods_ended_at, MARK_S):
        return False
    if draft.memo.rescue_at is None:
        draft.note(rescue_at=draft.now)
    if draft.is_past(draft.memo.rescue_at, ALL_TRIES_S):
        _give_up(draft, missing, "no rescue pod could do it within an hour")
        return True
    for key in missing:
        _see_to(draft, key)
    return all(_is_archived(draft, key) for key in missing)


def _started(draft: Draft) -> list[ReplicaKey]:
    """Replicas of all attempts that have something to archive."""
    ran = {row.key for row in draft.replicas.values() if row.started_at is not None}
    begun = {key for key, row in draft.seen.archives.items() if not row.is_complete}
    return sorted(ran | begun)


def _is_archived(draft: Draft, key: ReplicaKey) -> bool:
    if key.text in draft.memo.rescued or key.text in draft.memo.lost:
        return True
    row = draft.seen.archives.get(key)
    if row is None or not row.is_complete:
        return False
    uid = _pod_uid(draft, key)
    # A mark of an earlier pod of the same replica says nothing about the last one.
    return not row.pod_uid or not uid or row.pod_uid == uid


def _pod_uid(draft: Draft, key: ReplicaKey) -> str:
    row: ReplicaRow | None = draft.replicas.get(key)
    return row.pod_uid if row is not None else ""


def _see_to(draft: Draft, key: ReplicaKey) -> None:
    """The current try of one replica's rescue: start it, wait for it, or count it as failed."""
    number = draft.memo.rescues.get(key.text, 1)
    pods = [pod for pod in draft.seen.rescues if pod.key == key and pod.number == number]
    if not pods:
        _note_try(draft, key, number)
        # What its pod mounts is made anew, and nobody removes a Secret but the sweep.
        draft.note(swept=False)
        draft.call(Rescue(key, _pod_uid(draft, key), number))
        return
    pod = pods[0]
    if pod.phase == "Succeeded":
        draft.note(rescued=(*draft.memo.rescued, key.text))
        return
    if pod.phase == "Failed" or _is_stuck(draft, pod):
        draft.delete(pod)
        if number >= TRIES:
            _give_up(draft, [key], f"{TRIES} rescue pods have failed")
        else:
            _note_try(draft, key, number + 1)
            draft.due(draft.now)


def _is_stuck(draft: Draft, pod: PodFacts) -> bool:
    """Judged by our own clock: since the rescue of this job began, per try."""
    return draft.is_past(draft.memo.rescue_at, STUCK_S * pod.number)


def _note_try(draft: Draft, key: ReplicaKey, number: int) -> None:
    if draft.memo.rescues.get(key.text) != number:
        draft.note(rescues={**draft.memo.rescues, key.text: number})
        draft.say(
            "rescue", f"Its log is rescued from the log volume (try {number}).", subject=key.who
        )


def _give_up(draft: Draft, keys: list[ReplicaKey], why: str) -> None:
    for key in keys:
        draft.note(lost=(*draft.memo.lost, key.text))
        draft.say(
            "archive_incomplete",
            f"The end of its log is only on the log volume: {why}.",
            subject=key.who,
            warning=True,
        )
