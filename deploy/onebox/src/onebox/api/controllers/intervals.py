"""Sets of completion indexes as text: "0,2-4,7". Pure.

The format of `status.completedIndexes`, `status.failedIndexes` and `successPolicy` rules: runs of
three and more as first-last, two neighbours as "1,2"
(k8s.io/kubernetes/pkg/controller/job/indexed_job_utils.go).
"""

from collections.abc import Iterable


def parse_indexes(text: str | None, completions: int) -> set[int]:
    """Read indexes below `completions`; parts that are no numbers are skipped, as upstream."""
    indexes: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Write indexes in the interval format, ascending."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if run and (index is None or index != run[-1] + 1):
            parts.extend(_format_run(run))
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def _format_run(run: list[int]) -> list[str]:
    if len(run) > 2:
        return [f"{run[0]}-{run[-1]}"]
    return [str(index) for index in run]
