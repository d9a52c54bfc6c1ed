"""What the hard gates about logs are judged by: every run of every workload is entered here."""

from dataclasses import dataclass, field

from tests.bench.results import Result, exactly_none
from tests.bench.runs import Run


@dataclass
class Ledger:
    """Lines lost without a word, and broken rules about upstreams, of the portal's side only."""

    delivered: int = 0
    announced: int = 0
    lost: int = 0
    runs: int = 0
    slowest_leave_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    upstream_errors: list[str] = field(default_factory=list)

    def enter(self, run: Run) -> Run:
        """Notes a run of the portal; gives it back."""
        self.runs += 1
        self.delivered += run.got.lines + (run.stalled.lines if run.stalled else 0)
        self.announced += run.got.skipped + (run.stalled.skipped if run.stalled else 0)
        self.lost += run.silently_lost
        self.wrong += run.wrong
        self.slowest_leave_s = max(self.slowest_leave_s, run.left_s or 0.0)
        if run.upstream_error:
            self.upstream_errors.append(run.upstream_error)
        return run

    def results(self) -> list[Result]:
        """M5 and M7; nothing when no log was watched."""
        if not self.runs:
            return []
        words = f"{self.delivered:,} lines delivered in {self.runs} runs, {self.announced:,} announced as skipped"
        return [
            Result(
                "M5",
                "lines lost silently",
                self.lost,
                exactly_none(),
                "lines",
                "; ".join([words, *self.wrong[:3]]),
            ),
            Result(
                "M7",
                "runs with other than one upstream per pod, or one left 10 s after the last viewer",
                len(self.upstream_errors),
                exactly_none(),
                "runs",
                "; ".join(
                    [
                        f"{self.runs} runs; the last upstream ended {self.slowest_leave_s:.1f} s after the last viewer",
                        *self.upstream_errors[:3],
                    ]
                ),
            ),
        ]
