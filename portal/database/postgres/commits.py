"""Whether the request that is being answered has asked PostgreSQL to commit something.

A COMMIT whose answer did not come may have been done all the same, and so may one before whatever
failed later: from then on nobody may be told that nothing was changed.
"""

from contextvars import ContextVar


class _Commits:
    """Of one request, whose threads all see the same."""

    have_begun = False


_of_request: ContextVar[_Commits | None] = ContextVar("commits", default=None)


def watch() -> None:
    """Said on the event loop when a request begins that may change something."""
    _of_request.set(_Commits())


def begin() -> None:
    """Said before each COMMIT."""
    commits = _of_request.get()
    if commits is not None:
        commits.have_begun = True


def have_begun() -> bool:
    commits = _of_request.get()
    return commits is not None and commits.have_begun
