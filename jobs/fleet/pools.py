"""The pools of the catalog as the pages of nodes and of health tell them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from jobs.fleet.checks import Check
from portal.catalog import get_catalog
from portal.errors import ConfigurationError
from portal.pools import DEFAULT, Pool, pool_of


@dataclass(frozen=True)
class PoolLine:
    """A pool on the page of nodes; `teams` is None where everybody may use it."""

    name: str
    title: str
    node_count: int
    teams: Sequence[str] | None = None
    scheduler_name: str = ""
    held: Sequence[str] = ()  # names of its nodes that an admin holds


def pool_lines(
    pools: Sequence[Pool], nodes_of: Mapping[str, int], held_of: Mapping[str, Sequence[str]]
) -> list[PoolLine]:
    """All pools, `default` last; nothing where the catalog has none.

    Args:
        nodes_of: name of a pool -> how many nodes it has.
        held_of: name of a pool -> names of those that are held.
    """
    if not pools:
        return []
    of_catalog = [
        PoolLine(
            pool.name,
            pool.shown_name,
            nodes_of.get(pool.name, 0),
            pool.teams,
            pool.scheduler_name,
            held_of.get(pool.name, ()),
        )
        for pool in pools
    ]
    rest = PoolLine(
        DEFAULT, _("All other nodes"), nodes_of.get(DEFAULT, 0), held=held_of.get(DEFAULT, ())
    )
    return [*of_catalog, rest]


def checks(labels: Sequence[Mapping[str, str]], teams: Collection[str]) -> Iterator[Check]:
    """What is wrong with the catalog or its pools.

    Args:
        labels: of each node.
        teams: names of all teams.
    """
    try:
        pools = get_catalog().pools
    except ConfigurationError as error:
        step = _("Mend the file that CATALOG names; it is read again at once.")
        yield Check("bad", _("Catalog"), str(error), step)
        return
    used = {pool_of(each, pools).name for each in labels}
    for pool in pools:
        title = _("Pool %(name)s") % {"name": pool.name}
        if pool.name not in used:
            is_taken = any(pool.selects(each) for each in labels)
            text = _("No node has its labels: %(labels)s.") % {
                "labels": ", ".join(f"{key}={value}" for key, value in pool.node_selector.items())
            }
            if is_taken:
                text = _("All nodes that it selects belong to a pool that stands before it.")
            step = _("What asks for it waits. Label its nodes, or change its node_selector.")
            yield Check("warn", title, text, step)
        if unknown := sorted(set(pool.teams or ()) - set(teams)):
            text = _("There is no such team: %(names)s.") % {"names": ", ".join(unknown)}
            yield Check("warn", title, text, _("Write the names of teams as Homeport has them."))
