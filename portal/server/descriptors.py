"""How many files and connections this process may open, and how many it accepts at a time."""

import resource

# Connections that the kernel keeps for us until we accept them, as far as net.core.somaxconn allows.
# Where there are more, Linux lets them believe that they are open, and resets them some seconds later.
QUEUE = 4096


def raise_descriptor_limit() -> None:
    """Lets this process open as many files and connections as it may ever."""
    hard = descriptor_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """How many files and connections this process may open at most."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def backlog() -> int:
    """How many connections are accepted at a time.

    Where descriptors end in the middle, asyncio logs each of the others.
    """
    return max(16, min(2048, descriptor_limit() // 16))
