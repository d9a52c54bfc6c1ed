"""Which failures are retried: every exit code, every reason and every policy, against a table by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.pod.protocol import codes
from jobs.rules import reasons, restarts
from jobs.rules.endings import DISRUPTIONS
from jobs.rules.reasons import Reason
from jobs.rules.restarts import ReplicaEnd, RestartPolicy

AGAIN = [
    "evicted_retrying",
    "preempted",
    "node_lost",
    "drained",
    "cluster_restarted",
    "source_unreachable",
    "fetch_failed",
    "peer_unresolved",
    "peers_lost",
    "cuda_driver",
    "volume_lost",
    "no_gpu_seen",
    "evicted",
    "evicted_memory",
    "evicted_pids",
    "node_full",
    "node_shutdown",
    "disrupted",
    "pod_deleted",
    "lost_outcome",
    "job_failed",
]
FINAL = [
    "sha256_mismatch",
    "bundle_unsafe",
    "bundle_broken",
    "bundle_too_large",
    "git_denied",
    "git_host_key",
    "git_ref",
    "git_gone",
    "git_path",
    "no_git",
    "volume_not_writable",
    "volume_full",
    "no_user",
    "no_tensorflow",
    "command_not_found",
    "command_not_executable",
    "start_error",
    "evicted_disk",
]
BY_CODE = [
    "exit_code",
    "signal",
    "out_of_memory",
    "missing_module",
    "cuda_out_of_memory",
    "gpu_fault",
    "shared_memory_short",
    "shared_library",
    "disk_full",
    "read_only",
    "file_missing",
    "not_permitted",
    "host_memory",
    "name_unknown",
    "address_in_use",
    "bad_arguments",
    "syntax_error",
    "script_missing",
    "shell_command_missing",
    "windows_lines",
    "notebook_as_script",
    "mpi_slots",
    "mpi_option",
]
# Ranges of exit codes, and whether `exit_code` retries what only its code tells of.
RANGES = [(0, 127, False), (128, 255, True)]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_the_table_has_all_that_a_replica_can_fail_by() -> None:
    known = {*AGAIN, *FINAL, *BY_CODE}
    assert len(known) == len(AGAIN) + len(FINAL) + len(BY_CODE)
    assert known <= reasons.ROWS.keys()
    assert codes.EXPLAINED | DISRUPTIONS | restarts.RETRIED.keys() <= known


@pytest.mark.parametrize("reason", [*AGAIN, *FINAL, *BY_CODE])
def test_what_is_retried(reason: str) -> None:
    for first, last, is_high in RANGES:
        expected = reason in AGAIN or (reason in BY_CODE and is_high)
        for code in range(first, last + 1):
            assert restarts.is_retried(RestartPolicy.EXIT_CODE, reason, code) is expected, code
            assert restarts.is_retried(RestartPolicy.ON_FAILURE, reason, code)
            assert not restarts.is_retried(RestartPolicy.NEVER, reason, code)
    assert restarts.is_retried(RestartPolicy.EXIT_CODE, reason, None) is (reason not in FINAL)


def end(who: str, code: int, after_s: float | None, reason: str = "exit_code") -> ReplicaEnd:
    at = None if after_s is None else NOW + timedelta(seconds=after_s)
    return ReplicaEnd(who, Reason(reason), code, at)


@pytest.mark.parametrize(
    ("ends", "by_code", "else_"),
    [
        ([end("a", 1, 0)], "a", "a"),
        ([end("b", 143, 5), end("a", 1, 0)], "a", "a"),
        ([end("b", 143, 2), end("a", 1, 0)], "b", "a"),
        ([end("b", 143, 2.1), end("a", 1, 0)], "a", "a"),
        ([end("b", 1, 0.5), end("a", 137, 0)], "a", "a"),
        ([end("c", 143, 2), end("b", 137, 1), end("a", 1, 0)], "b", "a"),
        ([end("b", 143, None), end("a", 1, 0)], "a", "a"),
        ([end("b", 1, None), end("a", 2, None)], "a", "a"),
        ([end("b", 137, 100, "node_lost"), end("a", 137, 0)], "b", "b"),
    ],
)
def test_who_decides(ends: list[ReplicaEnd], by_code: str, else_: str) -> None:
    for policy in RestartPolicy:
        found = restarts.decisive(policy, ends)
        assert found is not None
        assert found.who == (by_code if policy is RestartPolicy.EXIT_CODE else else_)
    assert restarts.decisive(RestartPolicy.EXIT_CODE, []) is None


def test_the_back_off_doubles_up_to_six_minutes() -> None:
    waits = [restarts.backoff_s(count) for count in (0, 1, 2, 3, 4, 5, 6, 7, 10**6)]
    assert waits == [10, 10, 20, 40, 80, 160, 320, 360, 360]
