"""Jobs: what they may not be, what may not change, and what events tell of them."""

from __future__ import annotations

from tests.contract.bodies import job
from tests.contract.kube import MERGE, Json
from tests.contract.script import script
from tests.contract.scripts.jobs import BATCH, BY_CODE, DISRUPTED, Play, rule
from tests.contract.tape import Tape, pick


@script
def what_a_job_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("jobs", group=BATCH)
    for spec in (
        {"completions": -1, "parallelism": -1, "backoffLimit": -1},
        {"activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1},
        {"completionMode": "Indexed"},
        {"completionMode": "Sideways"},
        {"backoffLimitPerIndex": 1},
        {"maxFailedIndexes": 1},
        {"podReplacementPolicy": "Never"},
        {"podReplacementPolicy": "TerminatingOrFailed", **rule("Ignore", **DISRUPTED)},
        rule("Shout", **DISRUPTED),
        rule("Ignore"),
        rule("FailIndex", **BY_CODE),
        {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
        {
            "completionMode": "Indexed",
            "completions": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "5"}]},
        },
        {"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": []}},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"template": {"restartPolicy": "Always"}},
        {"template": {"restartPolicy": "OnFailure"}, **rule("Ignore", **DISRUPTED)},
    ):
        tape.post(path, job(**spec), dryRun="All", show=pick("metadata.name"))
    tape.post(path, {"metadata": {"name": "j"}, "spec": {}})


@script
def what_of_a_job_may_not_change_is_refused(tape: Tape) -> None:
    play = Play(tape, completionMode="Indexed", completions=2, parallelism=1)
    for spec in (
        {"completions": 3},
        {"parallelism": 3, "completions": 3},
        {"completionMode": "NonIndexed"},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"template": {"spec": {"priorityClassName": "x"}}},
        {"template": {"metadata": {"labels": {"a": "b"}}}},
        {"backoffLimit": 3, "activeDeadlineSeconds": 99, "ttlSecondsAfterFinished": 99},
        {"backoffLimitPerIndex": 1},
    ):
        shown = pick("spec.completions", "spec.parallelism", "spec.backoffLimit")
        reply = tape.kube.send("PATCH", play.path, {"spec": spec}, kind=MERGE)
        body = shown(reply.body) if reply.code < 300 else _without_values(reply.body)
        tape.note(f"patch {spec}", {"code": reply.code, "body": body})


def _without_values(body: Json) -> Json:
    """A refusal without the dumps of Go values in it."""
    causes = [(c["field"], c["reason"]) for c in body["details"]["causes"]]
    return {"reason": body["reason"], "causes": causes}


@script
def the_template_of_a_suspended_job_may_change_where_pods_go(tape: Tape) -> None:
    play = Play(tape, suspend=True)
    play.until_condition("Suspended")
    spec = {"template": {"spec": {"nodeSelector": {"a": "b"}}}}
    tape.merge(play.path, {"spec": spec}, show=pick("spec.template.spec.nodeSelector"))


@script
def events_tell_what_a_job_did(tape: Tape) -> None:
    play = Play(tape, backoffLimit=0, completions=1)
    tape.fails(play.pods(1)[0])
    play.until_condition("Failed")
    path = tape.path("events", fieldSelector="involvedObject.kind=Job")
    tape.until(
        path,
        lambda body: (
            {"BackoffLimitExceeded", "SuccessfulCreate"}
            <= {event["reason"] for event in body["items"]}
        ),
        show=lambda body: sorted(
            (e["reason"], e["type"], e["message"], e["source"]["component"]) for e in body["items"]
        ),
    )


@script
def events_tell_that_a_job_completed_was_suspended_and_resumed(tape: Tape) -> None:
    play = Play(tape, suspend=True)
    play.until_condition("Suspended")
    tape.kube.must("PATCH", play.path, {"spec": {"suspend": False}}, kind=MERGE)
    tape.succeeds(play.pods(1)[0])
    play.until_condition("Complete")
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=Job"),
        lambda body: (
            {"Completed", "Suspended", "Resumed"} <= {event["reason"] for event in body["items"]}
        ),
        show=lambda body: sorted((e["reason"], e["type"], e["message"]) for e in body["items"]),
    )


@script
def a_pod_that_fits_the_selector_is_adopted_only_with_the_uid(tape: Tape) -> None:
    play = Play(tape, suspend=True)
    body = tape.kube.get(play.path).body
    tape.note("selector", body["spec"]["selector"])
    tape.note("labels", body["spec"]["template"]["metadata"]["labels"])
