"""Nodes that an admin holds from a time on: which of them are closed to what, and how that is told. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from jobs.rules.admission import Fit
from jobs.rules.amounts import NodeCapacity
from jobs.rules.queue.times import moment_text

_NAMED = 3


def held_before(holds: Mapping[str, int], ends_s: int) -> frozenset[str]:
    """Names of the nodes that what ends by then may not start on.

    Args:
        holds: name of a node -> from when on it is held, in seconds.
    """
    return frozenset(name for name, from_s in holds.items() if from_s < ends_s)


def closed(nodes: Sequence[NodeCapacity], names: Collection[str]) -> list[NodeCapacity]:
    """The same nodes, of which these take nothing."""
    return [replace(node, is_open=False) if node.name in names else node for node in nodes]


def answer_beside(answer: Fit, held: Collection[str], holds: Mapping[str, int]) -> Fit:
    """What is said of nodes of which these are held, with that in words."""
    if not held:
        return answer
    told = held_text(held, holds)
    is_all = answer.code == "nodes_closed"
    return replace(
        answer, text=f"Waiting for a node: {told}" if is_all else f"{answer.text}; {told}"
    )


def held_text(names: Collection[str], holds: Mapping[str, int]) -> str:
    """`nodes n3 and n4 are held from 18:00 UTC on 26 November until …`, with the first time of several."""
    found = sorted(names)
    many = len(found) - _NAMED
    shown = [*found[:_NAMED], f"{many} more"] if many > 0 else found
    listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
    held, them = ("node {} is", "it") if len(found) == 1 else ("nodes {} are", "them")
    at = moment_text(min(holds[name] for name in found))
    return f"{held.format(listed)} held from {at} until an admin releases {them}"
