"""Messages between the node half and the sandbox's programs."""

from __future__ import annotations

import asyncio
import os

import pytest

from onebox.node.descriptors import keep_only
from onebox.node.link import Link, Refused
from onebox.node.wire import ChannelClosed, make_pair, receive_message, send_message


def test_a_message_arrives_with_descriptors_and_a_process():
    ours, theirs = make_pair()
    with ours, theirs:
        read_end, write_end = os.pipe()
        send_message(ours, {"a": "ü"}, [write_end], pid=os.getpid())
        message = receive_message(theirs)
        assert (message.fields, message.pid) == ({"a": "ü"}, os.getpid())
        os.write(message.fds[0], b"through")
        assert os.read(read_end, 10) == b"through"
        assert not os.get_inheritable(message.fds[0])
        message.close_fds()
        os.close(read_end)
        os.close(write_end)


def test_a_large_message_arrives():
    ours, theirs = make_pair()
    with ours, theirs:
        large = {"env": {str(number): "x" * 1000 for number in range(5000)}}
        before = len(os.listdir("/proc/self/fd"))
        send_message(ours, large, [ours.fileno()])
        message = receive_message(theirs)
        assert message.fields == large
        assert len(message.fds) == 1
        message.close_fds()
        assert len(os.listdir("/proc/self/fd")) == before


def test_the_end_of_the_other_side_is_noticed():
    ours, theirs = make_pair()
    with ours:
        theirs.close()
        with pytest.raises(ChannelClosed):
            send_message(ours, {})
        with pytest.raises(ChannelClosed):
            receive_message(ours)


async def test_requests_are_answered_in_any_order_and_events_pass_between():
    ours, theirs = make_pair()
    events, closed = [], []
    link = Link(ours, lambda message: events.append(message.fields), lambda: closed.append(1))
    first = asyncio.create_task(link.request({"op": "first"}))
    second = asyncio.create_task(link.request({"op": "second"}))
    await asyncio.sleep(0)
    ids = [receive_message(theirs).fields["id"] for _ in range(2)]
    send_message(theirs, {"event": "between"})
    send_message(theirs, {"id": ids[1], "error": "no", "code": 5})
    send_message(theirs, {"id": ids[0], "value": 1})
    assert (await first).fields["value"] == 1
    with pytest.raises(Refused) as caught:
        await second
    assert caught.value.fields["code"] == 5
    assert events == [{"event": "between"}]
    waiting = asyncio.create_task(link.request({"op": "third"}))
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(ChannelClosed):
        await waiting
    assert closed == [1]
    with pytest.raises(ChannelClosed):
        await link.request({})


async def test_a_thousand_requests_wait_for_a_slow_reader():
    ours, theirs = make_pair()
    link = Link(ours, lambda _message: None, lambda: None)
    requests = [asyncio.create_task(link.request({"text": "x" * 5000})) for _ in range(1000)]
    await asyncio.sleep(0)
    for _ in requests:
        message = await asyncio.to_thread(receive_message, theirs)
        send_message(theirs, {"id": message.fields["id"]})
        await asyncio.sleep(0)
    await asyncio.gather(*requests)
    link.close()
    theirs.close()


async def test_a_reply_that_nobody_waits_for_is_dropped():
    ours, theirs = make_pair()
    link = Link(ours, lambda _message: pytest.fail("not an event"), lambda: None)
    request = asyncio.create_task(link.request({}))
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    send_message(theirs, {"id": receive_message(theirs).fields["id"]}, [theirs.fileno()])
    link.drain()
    link.close()
    theirs.close()


def test_only_the_named_descriptors_are_kept():
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            high = os.dup(write_end)
            os.dup2(read_end, 5000)
            kept = keep_only([5000, high])
            open_now = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1]
            if kept == [4, 3] and open_now == [0, 1, 2, 3, 4] and os.write(3, b"x") == 1:
                code = 0
        finally:
            os._exit(code)
    _pid, status = os.waitpid(pid, 0)
    assert status == 0
    assert os.read(read_end, 1) == b"x"
    os.close(read_end)
    os.close(write_end)
