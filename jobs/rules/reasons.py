"""Why a training waits, failed or was stopped: a stable code, a sentence, and what to do next.

One table, whose rows stand by family in `reason_rows`; `make` fills the facts in. The codes are part of
the public surface (docs/api.md).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.rules.reason_rows import cluster, interactive, people, programs, queue, sources, starts


@dataclass(frozen=True)
class Reason:
    """What a person reads; all three empty when there is nothing to say."""

    code: str = ""
    text: str = ""
    next_step: str = ""


NONE = Reason()
TEXT_MAX = 1000  # of facts that come from the cluster or from a program, characters

# Homeport's own fault.
_OURS: dict[str, tuple[str, str]] = {
    "internal": (
        "Homeport could not process this training: {detail}",
        "It is retried automatically; tell your admin if it lasts.",
    ),
}
FAMILIES = (
    queue.ROWS,
    starts.ROWS,
    interactive.ROWS,
    programs.ROWS,
    sources.ROWS,
    cluster.ROWS,
    people.ROWS,
    _OURS,
)
# code -> (sentence, next step); names in braces are the facts that `make` needs.
ROWS: dict[str, tuple[str, str]] = {
    code: row for family in FAMILIES for code, row in family.items()
}


def clip(text: str, limit: int = TEXT_MAX) -> str:
    """Text from outside, in one line and not too long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


# What to do when a wait has ended in failure, for steps that speak of the wait.
AFTER_THE_END: Mapping[str, str] = {
    "image_pull": "Check the image's name and tag, and submit again.",
    "image_rate_limit": "Submit again later; ask your admin for a mirror if it repeats.",
    "registry_unreachable": "Check the first part of the name, the registry's host, and submit again.",
    "quota_refused": "Submit again; tell your admin if it repeats.",
    "quota_exceeded": "Stop workloads that you no longer need, and submit again.",
    "volume_attached": "Submit again later; tell your admin if it repeats.",
}


_BEFORE_A_SENTENCE = re.compile(r"\{(\w+)\} [A-Z]")  # a fact that another sentence follows


def make(code: str, **facts: str | int) -> Reason:
    """The row of the table with its facts filled in.

    Raises:
        KeyError: the code is not in the table, or a fact that its sentence needs is not given.
    """
    text, next_step = ROWS[code]
    clean = {name: clip(str(value)) for name, value in facts.items()}
    for name in _BEFORE_A_SENTENCE.findall(text):
        if clean[name] and clean[name][-1] not in ".!?…":
            clean[name] += "."
    sentence = text.format_map(clean)
    if sentence.startswith("the "):  # "the notebook"; replicas have names, which stay as they are
        sentence = f"The {sentence.removeprefix('the ')}"
    return Reason(code, sentence, next_step.format_map(clean))


def stopped(*, by: str, why: str) -> Reason:
    """Why something ended on somebody's request.

    Args:
        by: the person's name, empty when it was the owner.
        why: as that person wrote it; may be empty.
    """
    if by:
        return make("stopped_by", who=by, why=why or "no reason was given.")
    return make("stopped_because", why=why) if why else make("stopped")


def suspended(*, by: str) -> Reason:
    """Why a training was suspended; `by` as above."""
    return make("suspended_by", who=by) if by else make("suspended")


def preempted(who: str, why: str, count: int) -> Reason:
    """Why a training of low priority is stopped, for the `count`th time.

    Args:
        who: for whose training; else `why` says it.
    """
    times = "" if count == 1 else f" ({count} times by now)"
    return make("preempted_held" if why else "preempted_low", who=who, why=why, times=times)


def duration_text(seconds: int) -> str:
    """`90 seconds`, `5 minutes`, `2 hours`: the largest unit that divides it."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            number = seconds // size
            return f"{number} {unit}" + ("" if number == 1 else "s")
    return "1 second" if seconds == 1 else f"{seconds} seconds"
