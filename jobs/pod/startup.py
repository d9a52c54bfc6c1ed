# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""What a replica waits for before its program starts: addresses of the others, and daemons that answer."""

import signal
from typing import Callable, Optional, Sequence, Tuple

from jobs.pod import mpi
from jobs.pod.files import Config
from jobs.pod.peers import Addresses, Names, greet, some_names, wait_for_peers
from jobs.pod.portal_client import PortalClient
from jobs.pod.program import Ending
from jobs.pod.protocol import codes
from jobs.pod.protocol.placeholders import ReplicaContext


def wait_for_needs(
    config: Config,
    context: ReplicaContext,
    portal: PortalClient,
    say: Callable[[str], None],
    is_asked: Callable[[], bool],
    programs_folder: str,
) -> Tuple[Optional[Ending], ReplicaContext]:
    """Waits until all that the program needs is there.

    Args:
        say: prints a line of ours.
        is_asked: whether the replica has been asked to end.
        programs_folder: with this program and those packed beside it.

    Returns:
        how the replica ends when something does not come, and the context with what was found.
    """
    programs = config.get("programs") or {}
    is_mpi = codes.MPI_DAEMON in programs.values()
    text = mpi.find_missing_user() if is_mpi else None
    if text is not None:
        say(text)
        return Ending(codes.EXIT_CONFIGURATION, codes.NO_USER, text), context
    # Nobody speaks with who is in no list of hosts: an evaluator may begin when others have gone.
    names = context.peer_names if context.role in context.hosts else []
    timeout_s = float(config.get("peer_timeout_s") or 300)
    path = f"jobs/{config['id']}/hosts/?attempt={context.attempt}"
    named = Names(context.peers, lambda: portal.get(path + "&ended=1").get("ended") or {})
    find: Callable[[str], None] = named.probe
    seen: Optional[Addresses] = None
    if config.get("addresses") == "ip":
        seen = Addresses(context.hosts, lambda: portal.get(path))
        names, find = seen.names, seen.probe
    ending = _wait_for(names, timeout_s, "get an address", find, say, is_asked)
    if ending is None and named.ended:
        say(f"{some_names(named.ended)} ended before this replica found them")
    if ending is None and seen is not None:
        context = context._replace(hosts=seen.hosts())
    if ending is None and is_mpi and context.role not in programs:
        timeout_s = float(config.get("starting_deadline_s") or 300)
        ending = _wait_for(context.hosts["worker"], timeout_s, "answer", greet, say, is_asked)
        if ending is None:
            context = mpi.prepare(config, context, programs_folder)
    return ending, context


def _wait_for(
    names: Sequence[str],
    timeout_s: float,
    what: str,
    probe: Callable[[str], None],
    say: Callable[[str], None],
    is_asked: Callable[[], bool],
) -> Optional[Ending]:
    missing = wait_for_peers(names, timeout_s, say, is_asked, probe)
    if is_asked():
        return Ending(
            codes.SIGNAL_BASE + signal.SIGTERM,
            codes.STOPPED,
            "stopped before the program was started",
        )
    if missing:
        text = f"{some_names(missing)} did not {what} within {timeout_s:.0f} s"
        say(text)
        return Ending(codes.EXIT_CONFIGURATION, codes.PEER_UNRESOLVED, text)
    return None
