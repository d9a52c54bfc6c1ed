"""The lease: one writer at a time, and an older one that goes on writes nothing."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection

from jobs.leader.lease import Lease, LeaseLostError, holder_name, is_dead
from jobs.models import Node, ReconcilerLease

pytestmark = pytest.mark.django_db(transaction=True)


class Hands:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


def write_node() -> None:
    Node.objects.create(name="written")


async def test_a_second_one_waits_until_the_first_was_silent_for_too_long() -> None:
    clock = Hands()
    first, second = Lease(holder="a", monotonic=clock), Lease(holder="b", monotonic=clock)
    assert await first.try_acquire()
    assert not await second.try_acquire()
    clock.s += 10
    await first.commit(lambda: None)
    assert not await second.try_acquire()
    clock.s += 14
    assert not await second.try_acquire()
    clock.s += 2
    assert await second.try_acquire()
    assert second.epoch == first.epoch + 1


async def test_the_older_one_writes_nothing_and_learns_that_it_lost() -> None:
    clock = Hands()
    first, second = Lease(holder="a", monotonic=clock), Lease(holder="b", monotonic=clock)
    await first.try_acquire()
    await second.try_acquire()
    clock.s += 16
    assert await second.try_acquire()
    with pytest.raises(LeaseLostError, match="took over"):
        await first.commit(write_node)
    assert not await Node.objects.aexists()
    await second.commit(write_node)
    assert await Node.objects.aexists()


async def test_a_holder_that_could_not_renew_stops_itself_without_asking() -> None:
    clock = Hands()
    lease = Lease(holder="a", monotonic=clock)
    with pytest.raises(LeaseLostError):
        lease.check()
    await lease.try_acquire()
    lease.check()
    clock.s += 15
    with pytest.raises(LeaseLostError):
        lease.check()


async def test_a_write_that_fails_changes_nothing_and_keeps_the_lease() -> None:
    lease = Lease(holder="a")
    await lease.try_acquire()

    def broken() -> None:
        write_node()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        await lease.commit(broken)
    assert not await Node.objects.aexists()
    await lease.commit(lambda: None)


async def test_one_that_was_given_back_is_free_at_once() -> None:
    first, second = Lease(holder="a"), Lease(holder="b")
    await first.try_acquire()
    await first.release()
    assert not first.is_held
    assert await second.try_acquire()
    await first.release()  # not its own any more
    assert (await ReconcilerLease.objects.aget()).holder == "b"


async def test_the_lease_of_a_dead_process_of_this_machine_is_free_at_once() -> None:
    process = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    )
    place, _, _ = holder_name().rpartition("/")
    place, _, _ = place.rpartition("/")
    ticks = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[19]  # noqa: SIM115, ASYNC230
    holder = f"{place}/{process.pid}/{ticks}"
    assert not is_dead(holder)
    dead = Lease(holder=holder)
    assert await dead.try_acquire()
    waiting = Lease(holder="b")
    assert not await waiting.try_acquire()
    process.kill()
    await asyncio.to_thread(process.wait)
    assert process.stdin is not None
    process.stdin.close()
    assert is_dead(holder)
    assert await waiting.try_acquire()


def test_nobody_else_is_ever_taken_for_dead() -> None:
    assert not is_dead(holder_name())
    assert not is_dead(f"elsewhere/0/0/{os.getpid()}/1")
    for odd in ("", "/", "a/b", "////", "x/y/z/notanumber/1"):
        assert not is_dead(odd)
    assert len(holder_name()) <= 100


async def test_many_that_ask_at_once_get_one_lease() -> None:
    await sync_to_async(ReconcilerLease.objects.create)(pk=1)
    leases = [Lease(holder=f"h{n}") for n in range(8)]
    took = await asyncio.gather(*(lease.try_acquire() for lease in leases))
    assert sum(took) == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="nobody can cut off a file")
async def test_one_that_waits_opens_a_connection_that_was_cut_anew() -> None:
    first, second = Lease(holder="a"), Lease(holder="b")
    await first.try_acquire()
    assert not await second.try_acquire()
    await sync_to_async(lambda: connection.connection.close())()
    with suppress(DatabaseError):  # it may be noticed by the first question
        await second.try_acquire()
    assert not await second.try_acquire()
    await first.release()
    assert await second.try_acquire()


def test_one_that_was_killed_and_that_nobody_waited_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    place, _, _ = holder_name().rsplit("/", 2)
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    holder = f"{place}/{child.pid}/{started}"
    assert not is_dead(holder)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert is_dead(holder)
    child.wait()
