"""Jobs: pods, counts, conditions, and how they end."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.bodies import job
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape, conditions, ended, has_condition, is_alive, is_ending, pick

BATCH = "batch/v1"
SELECTOR = "job-name=j"


def status(obj: Json) -> Json:
    """What a Job says of itself, without times."""
    found = {
        key: value
        for key, value in (obj.get("status") or {}).items()
        if key not in {"startTime", "completionTime", "conditions"}
    }
    return {**found, "conditions": conditions(obj)}


def _whole(obj: Json) -> Json:
    return {"status": obj["status"]}


class Play:
    """One Job and its story."""

    def __init__(self, tape: Tape, **spec: object) -> None:
        self.tape = tape
        self.path = tape.path("jobs", "j", group=BATCH)
        made = tape.post(tape.path("jobs", group=BATCH), job(**spec), show=pick("metadata.name"))
        self.uid = made.uid
        self._version = made.version

    def pods(self, count: int) -> list[str]:
        """Names of the pods that live, by index."""
        return [pod["metadata"]["name"] for pod in self.tape.pods(SELECTOR, count)]

    @classmethod
    def indexed(cls, tape: Tape, count: int, **spec: object) -> Play:
        """Of so many indexes, all at once."""
        return cls(tape, completions=count, parallelism=count, completionMode="Indexed", **spec)

    def until(self, wanted: Callable[[Json], object], show: Callable = status) -> None:
        self.tape.until(self.path, wanted, show=show)

    def until_condition(self, kind: str, show: Callable = status) -> None:
        self.until(lambda obj: has_condition(obj, kind) and settled(obj), show)

    def story(self, is_last: Callable[[Json], object], show: Callable = status) -> None:
        """Write down how the status went since the Job was made."""
        path = self.tape.path("jobs", group=BATCH)
        with self.tape.watch(path, resourceVersion=self._version) as stream:
            events = stream.until(lambda event: is_last(event["object"]))
        self.tape.events(path, events, show=show)


def settled(obj: Json) -> bool:
    """Whether no pod of a Job waits to be counted."""
    left = obj["status"].get("uncountedTerminatedPods") or {}
    return not left.get("succeeded") and not left.get("failed")


def counts(**wanted: int) -> Callable[[Json], bool]:
    def hold(obj: Json) -> bool:
        found = obj.get("status") or {}
        return settled(obj) and all(found.get(key, 0) == value for key, value in wanted.items())

    return hold


def _order_of_conditions(obj: Json) -> list:
    return [found[:1] + found[2:] for found in conditions(obj)]


@script
def a_job_counts_its_pods_and_completes(tape: Tape) -> None:
    play = Play(tape, completions=2, parallelism=2)
    names = play.pods(2)
    play.until(counts(active=2))
    for name in names:
        tape.runs(name)
    play.until(counts(active=2, ready=2))
    tape.succeeds(names[0])
    play.until(counts(active=1, succeeded=1))
    tape.succeeds(names[1])
    play.until_condition("Complete", _whole)
    play.story(lambda obj: has_condition(obj, "Complete"), _order_of_conditions)


@script
def the_pods_of_an_indexed_job_carry_their_index(tape: Tape) -> None:
    play = Play.indexed(tape, 2)
    play.pods(2)
    for pod in tape.pods(SELECTOR, 2):
        tape.get(tape.path("pods", pod["metadata"]["name"]))


@script
def the_pods_of_a_plain_job_have_no_index(tape: Tape) -> None:
    play = Play(tape)
    tape.get(tape.path("pods", play.pods(1)[0]))


@script
def an_indexed_job_tells_which_indexes_are_done(tape: Tape) -> None:
    play = Play.indexed(tape, 4)
    names = play.pods(4)
    tape.succeeds(names[2])
    play.until(counts(succeeded=1))
    tape.succeeds(names[0])
    play.until(counts(succeeded=2))
    tape.succeeds(names[3])
    play.until(counts(succeeded=3))
    tape.succeeds(names[1])
    play.until_condition("Complete")


@script
def only_so_many_pods_run_at_once(tape: Tape) -> None:
    play = Play(tape, completions=3, parallelism=2, completionMode="Indexed")
    names = play.pods(2)
    tape.succeeds(names[0])
    names = play.pods(2)
    play.until(counts(active=2, succeeded=1))
    tape.merge(play.path, {"spec": {"parallelism": 1}}, show=pick("spec.parallelism"))
    play.until(lambda obj: obj["status"].get("active") == 1)


@script
def a_failed_pod_makes_the_job_fail_at_its_limit(tape: Tape) -> None:
    play = Play(tape, backoffLimit=0)
    tape.fails(play.pods(1)[0])
    play.until_condition("Failed", _whole)
    play.story(lambda obj: has_condition(obj, "Failed"), _order_of_conditions)


@script
def a_failed_pod_is_made_anew_below_the_limit(tape: Tape) -> None:
    play = Play(tape, backoffLimit=1)
    first = play.pods(1)[0]
    tape.fails(first)
    play.until(counts(failed=1))
    second = play.pods(1)[0]
    tape.note("another pod", first != second)
    tape.fails(second)
    play.until_condition("Failed")


@script
def a_failing_job_ends_its_other_pods_before_it_has_failed(tape: Tape) -> None:
    play = Play.indexed(tape, 2, backoffLimit=0)
    names = play.pods(2)
    for name in names:
        tape.runs(name)
    play.until(counts(active=2, ready=2))
    tape.fails(names[0])
    play.until(
        lambda obj: (
            has_condition(obj, "FailureTarget")
            and obj["status"].get("terminating") == 1
            and settled(obj)
        )
    )
    tape.until_ending(names[1], show=is_ending)
    tape.note("failed already", has_condition(tape.kube.get(play.path).body, "Failed"))
    tape.pod_status(names[1], ended("Failed", 137))
    tape.let_go(names[1])
    play.until_condition("Failed")


@script
def a_failed_index_fails_a_coupled_job(tape: Tape) -> None:
    play = Play.indexed(tape, 3, backoffLimitPerIndex=0, maxFailedIndexes=0)
    names = play.pods(3)
    tape.succeeds(names[0])
    play.until(counts(succeeded=1))
    tape.fails(names[2])
    play.until_condition("FailureTarget")
    tape.until_ending(names[1], show=is_ending)
    tape.let_go(names[1])
    play.until_condition("Failed", _whole)


@script
def failed_indexes_are_told_when_the_others_are_done(tape: Tape) -> None:
    play = Play.indexed(tape, 3, backoffLimitPerIndex=0)
    names = play.pods(3)
    tape.fails(names[1])
    play.until(counts(failed=1))
    tape.succeeds(names[0])
    tape.succeeds(names[2])
    play.until_condition("Failed", _whole)


@script
def an_index_is_tried_again_up_to_its_own_limit(tape: Tape) -> None:
    play = Play.indexed(tape, 2, backoffLimitPerIndex=1)
    names = play.pods(2)
    tape.fails(names[0])
    play.until(counts(failed=1))
    again = play.pods(2)
    tape.get(tape.path("pods", again[0]), show=lambda pod: pod["metadata"].get("annotations"))
    tape.fails(again[0])
    tape.succeeds(again[1])
    play.until_condition("Failed")


def rule(action: str, **more: object) -> Json:
    return {"podFailurePolicy": {"rules": [{"action": action, **more}]}}


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
BY_CODE = {"onExitCodes": {"operator": "In", "values": [42]}}


@script
def a_disrupted_pod_is_replaced_and_not_counted(tape: Tape) -> None:
    play = Play(tape, backoffLimit=0, podReplacementPolicy="Failed", **rule("Ignore", **DISRUPTED))
    first = play.pods(1)[0]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "Test"}
    tape.fails(first, 137, conditions=[condition])
    tape.until(
        tape.path("pods", labelSelector=SELECTOR),
        lambda body: any(is_alive(pod) for pod in body["items"]),
        show=lambda body: sorted(pod["status"]["phase"] for pod in body["items"]),
    )
    play.until(lambda obj: obj["status"].get("active") == 1 and settled(obj))
    tape.succeeds(play.pods(1)[0])
    play.until_condition("Complete")


@script
def an_exit_code_of_the_policy_fails_the_job_at_once(tape: Tape) -> None:
    play = Play(tape, backoffLimit=6, **rule("FailJob", **BY_CODE))
    tape.fails(play.pods(1)[0], 42)
    play.until_condition("Failed", _whole)


@script
def an_exit_code_of_the_policy_fails_its_index(tape: Tape) -> None:
    play = Play.indexed(tape, 2, backoffLimitPerIndex=3, **rule("FailIndex", **BY_CODE))
    names = play.pods(2)
    tape.fails(names[0], 42)
    play.until(counts(failed=1))
    tape.succeeds(names[1])
    play.until_condition("Failed")


@script
def a_replacement_waits_until_the_pod_has_ended(tape: Tape) -> None:
    play = Play(tape, podReplacementPolicy="Failed")
    name = play.pods(1)[0]
    tape.runs(name)
    play.until(counts(active=1, ready=1))
    tape.delete(tape.path("pods", name), show=pick("metadata.deletionGracePeriodSeconds"))
    play.until(lambda obj: obj["status"].get("terminating") == 1)
    tape.holds(
        tape.path("pods", labelSelector=SELECTOR),
        lambda body: len(body["items"]) == 1,
        for_s=2,
        show=lambda body: len(body["items"]),
    )
    tape.pod_status(name, ended("Failed", 137))
    tape.let_go(name)
    play.pods(1)
    play.until(counts(active=1, failed=1, terminating=0))


@script
def a_replacement_comes_while_the_pod_ends(tape: Tape) -> None:
    play = Play(tape)
    name = play.pods(1)[0]
    tape.runs(name)
    play.until(counts(active=1, ready=1))
    tape.delete(tape.path("pods", name), show=pick("metadata.deletionGracePeriodSeconds"))
    play.pods(1)
    play.until(counts(active=1, terminating=1))
    tape.let_go(name)


@script
def one_good_index_is_enough_for_a_success_policy(tape: Tape) -> None:
    play = Play.indexed(
        tape, 3, successPolicy={"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}
    )
    names = play.pods(3)
    for name in names:
        tape.runs(name)
    play.until(counts(active=3, ready=3))
    tape.succeeds(names[2])
    play.until(counts(succeeded=1, active=2))
    tape.succeeds(names[1])
    play.until_condition("SuccessCriteriaMet")
    tape.until_ending(names[0], show=is_ending)
    tape.note("complete already", has_condition(tape.kube.get(play.path).body, "Complete"))
    tape.let_go(names[0])
    play.until_condition("Complete", _whole)
    play.story(lambda obj: has_condition(obj, "Complete"), _order_of_conditions)


@script
def a_suspended_job_makes_pods_when_it_is_resumed(tape: Tape) -> None:
    play = Play(tape, suspend=True)
    play.until_condition("Suspended", _whole)
    tape.get(tape.path("pods", labelSelector=SELECTOR), show=lambda body: body["items"])
    tape.merge(play.path, {"spec": {"suspend": False}}, show=pick("spec.suspend"))
    play.pods(1)
    play.until(lambda obj: has_condition(obj, "Suspended", "False"), _whole)


@script
def suspending_a_job_ends_its_pods(tape: Tape) -> None:
    play = Play(tape)
    name = play.pods(1)[0]
    play.until(counts(active=1))
    tape.merge(play.path, {"spec": {"suspend": True}}, show=pick("spec.suspend"))
    play.until_condition("Suspended")
    tape.let_go(name)
    tape.until(
        tape.path("pods", labelSelector=SELECTOR),
        lambda body: not body["items"],
        show=lambda body: body["items"],
    )
    play.until(lambda obj: not obj["status"].get("terminating") and settled(obj))


@script
def a_job_past_its_deadline_fails(tape: Tape) -> None:
    play = Play(tape, activeDeadlineSeconds=1)
    name = play.pods(1)[0]
    play.until_condition("FailureTarget")
    tape.let_go(name)
    play.until_condition("Failed", _whole)


@script
def a_finished_job_goes_after_its_time_to_live(tape: Tape) -> None:
    play = Play(tape, ttlSecondsAfterFinished=1)
    name = play.pods(1)[0]
    tape.succeeds(name)
    tape.until_gone(play.path)
    tape.until(
        tape.path("pods", labelSelector=SELECTOR),
        lambda body: all(map(is_ending, body["items"])),
        show=lambda body: len(body["items"]) <= 1,
    )


@script
def a_job_of_no_pods_is_complete_at_once(tape: Tape) -> None:
    play = Play(tape, completions=0)
    play.until_condition("Complete", _whole)


@script
def a_job_of_parallelism_zero_waits(tape: Tape) -> None:
    play = Play(tape, parallelism=0)
    play.until(lambda obj: obj.get("status"))
    tape.get(tape.path("pods", labelSelector=SELECTOR), show=lambda body: body["items"])
