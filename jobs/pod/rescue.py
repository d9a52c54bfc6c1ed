"""Ships what a runner left behind when it was killed: log segments, artifacts, the exit code.

Runs in a pod of its own from Homeport's image, with the log volume of the replica. It looks at every
attempt of its replica that carries no `uploaded` mark, so that one rescue serves several deaths, and
repeating it is harmless: the portal says what it has.
"""

import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import time
from typing import Any

from jobs.pod import files
from jobs.pod.artifacts import list_artifacts, ship_artifacts
from jobs.pod.checkpoints import told_checkpoint
from jobs.pod.errors import PortalError
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import notice
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.pod.protocol.termination import TerminationMessage
from jobs.pod.segments import attempt_folders, kept_segments, number_in, read_exits
from jobs.pod.shipping import ship_kept

# Where the store is full: nobody else brings it later, and this pod holds next to nothing. It ends in time.
FULL_RETRY_PART = 2.5


def unmarked(context: ReplicaContext, lost_pod_uid: str) -> dict[int, list[str]]:
    """Attempts up to this one with the state folders that have to be shipped, oldest first.

    Of this very attempt only the lost pod's folder is touched where its uid is known: the pod that
    replaced it may be writing next to it.
    """
    own = attempt_folders(context.state_parent, context.attempt)
    if lost_pod_uid:
        own = [folder for folder in own if folder.endswith(f"-{lost_pod_uid[:8]}")]
    found = {}
    for attempt in range(1, context.attempt):
        found[attempt] = attempt_folders(context.state_parent, attempt)
    found = {attempt: folders for attempt, folders in found.items() if not _is_marked(folders)}
    # Killed before its runner wrote anything: that is reported too.
    if not own or not _is_marked(own):
        found[context.attempt] = own
    return found


def _is_marked(folders: list[str]) -> bool:
    return all(os.path.exists(os.path.join(folder, "uploaded")) for folder in folders)


def rescue_attempt(
    portal: PortalClient,
    job_id: str,
    context: ReplicaContext,
    folders: list[str],
    budget: RetryBudget,
) -> None:
    """Ships the log of one attempt and reports its end; `context.pod_uid` may be unknown (empty).

    Raises:
        PortalError: see `PortalClient`.
    """
    segments, _, end = kept_segments(folders)
    replica_path = f"jobs/{job_id}/replicas/{context.role}/{context.task_index}/{context.attempt}/"
    kept_bytes = ship_kept(portal, replica_path, segments, context.pod_uid, budget, _tell)
    start = segments[0].start if segments else 0
    noted = (read_exits(folders) or [{}])[-1]
    code = noted.get("exit_code")
    body = {
        "exit_code": code if isinstance(code, int) and 0 <= code <= 255 else None,
        "reason": str(noted.get("reason") or codes.LOST)[:64],
        "skipped_bytes": max(0, max(end, int(number_in(noted, "end_byte"))) - start - kept_bytes),
        "by_rescue": True,
        "pod_uid": context.pod_uid,
        **told_checkpoint(context, budget),
    }
    budget.keep_trying(lambda: portal.post(replica_path + "done/", body))
    files.mark_uploaded(folders)


def _tell(text: str) -> None:
    sys.stdout.write(notice(text))


def rescue(config: dict[str, Any], context: ReplicaContext, portal: PortalClient) -> str:
    """Ships everything of this replica; returns a sentence.

    Args:
        config: of the job.
        context: the replica and attempt that were lost, with the lost pod's uid ("" when unknown).
        portal: to which it goes.

    Raises:
        PortalError: see `PortalClient`.
    """
    retry_s = float(config.get("retry_s") or 600)
    budget = RetryBudget(retry_s, retry_s * FULL_RETRY_PART)
    budget.ending_at = time.monotonic()
    attempts = unmarked(context, context.pod_uid)
    if not attempts:
        return "nothing was left to ship"
    # Before the report that makes the archive complete: the reconciler cleans up after it.
    found = list_artifacts(context, config)
    job_path = f"jobs/{config['id']}/"
    for sentence in ship_artifacts(portal, job_path, context, found, budget):
        _tell(sentence)
    for attempt, folders in attempts.items():
        uid = context.pod_uid if attempt == context.attempt else ""
        lost = context._replace(attempt=attempt, pod_uid=uid)
        rescue_attempt(portal, str(config["id"]), lost, folders, budget)
    return f"attempt {', '.join(map(str, attempts))} of {context.name} is shipped"


def main(arguments: list[str]) -> int:
    """The exit code: 0 when nothing is left, 1 when something is."""
    paths = files.read_paths(arguments)
    try:
        config = paths.read_config()
        context = files.read_context(config, dict(os.environ))._replace(
            attempt=int(os.environ["HOMEPORT_ATTEMPT"]),
            pod_uid=os.environ.get("HOMEPORT_RESCUE_POD_UID", ""),
        )
        portal = PortalClient(os.environ["HOMEPORT_URL"], paths.read_token())
        text, reason, code = rescue(config, context, portal), codes.UPLOADED, 0
    except PortalError as error:
        left = "" if error.status else "what was not shipped stays on the volume: "
        text = f"{left}{error}"
        # A training that is gone for the portal has nothing left that anybody wants.
        code = 0 if error.is_final else 1
        reason = codes.NOT_UPLOADED if code else codes.UPLOADED
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"the pod's own configuration cannot be used: {type(error).__name__} {error}"
        reason, code = codes.CONFIGURATION_BROKEN, 1
    _tell(text)
    message = TerminationMessage(reason, text, code, uploaded=code == 0)
    files.write_message(paths.message, message)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
