"""The node half's end of a channel to the holder or to a pod's init: asyncio on top of `wire`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from onebox.node.wire import (
    ChannelClosed,
    Fields,
    Message,
    receive_message,
    send_message,
)


class Refused(Exception):  # noqa: N818 - the other side's answer, with its fields
    """A request was answered with an error.

    Attributes:
        fields: the answer; "error" is a sentence.
    """

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields.get("error", "no reason given"))
        self.fields = fields


class Link:
    """The asyncio side of a channel: requests with replies, and events.

    Args:
        on_event: called in the loop with every message that answers no request.
        on_closed: called once when the other side is gone.
    """

    def __init__(
        self,
        channel: socket.socket,
        on_event: Callable[[Message], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._channel.setblocking(False)
        self._on_event = on_event
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, asyncio.Future[Message]] = {}
        self._queue: deque[tuple[Fields, list[int]]] = deque()
        self._last_id = 0
        self._open = True
        self._loop.add_reader(channel.fileno(), self._readable)

    async def request(self, fields: Fields, fds: Sequence[int] = ()) -> Message:
        """Send a request and return its reply.

        Args:
            fds: sent along; duplicated here, so that the caller may close them at once.

        Raises:
            Refused: the other side answered with an error.
            ChannelClosed: it is gone, or goes before it has answered.
        """
        if not self._open:
            raise ChannelClosed
        self._last_id += 1
        number = self._last_id
        future: asyncio.Future[Message] = self._loop.create_future()
        self._pending[number] = future
        self._queue.append(({**fields, "id": number}, [os.dup(fd) for fd in fds]))
        self._flush()
        try:
            reply = await future
        finally:
            self._pending.pop(number, None)
        if "error" in reply.fields:
            reply.close_fds()
            raise Refused(reply.fields)
        return reply

    def drain(self) -> None:
        """Deliver what the other side sent before it ended."""
        while self._open and self._readable():
            pass

    def close(self) -> None:
        """Close the channel; requests under way end with ChannelClosed, on_closed is called."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._channel.close()
        for _fields, fds in self._queue:
            for fd in fds:
                os.close(fd)
        self._queue.clear()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ChannelClosed())
        self._on_closed()

    def _flush(self) -> None:
        while self._queue:
            fields, fds = self._queue[0]
            try:
                send_message(self._channel, fields, fds)
            except BlockingIOError:
                self._loop.add_writer(self._channel.fileno(), self._flush)
                return
            except ChannelClosed:
                self.close()
                return
            self._queue.popleft()
            for fd in fds:
                os.close(fd)
        self._loop.remove_writer(self._channel.fileno())

    def _readable(self) -> bool:
        """Take one message; return whether there was one."""
        try:
            message = receive_message(self._channel)
        except BlockingIOError:
            return False
        except ChannelClosed:
            self.close()
            return False
        future = self._pending.get(message.fields.get("id", 0))
        if future is not None and not future.done():
            future.set_result(message)
        elif "id" in message.fields:
            message.close_fds()  # whoever asked no longer waits
        else:
            self._on_event(message)
        return True
