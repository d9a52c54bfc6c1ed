"""What goes wrong in a pod, in sentences for people."""


class PodError(Exception):
    """A program of ours cannot do its work; `reason` is one of the codes in `protocol/codes.py`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class PortalError(Exception):
    """The portal or the object store did not do what was asked.

    Attributes:
        status: of an answer that will not change; 0 without an answer, or with one that says
            "later", which is worth another try.
        is_full: that "later" is because a disk there is full.
        retry_after_s: how much later it says at least; 0: it does not say.
    """

    def __init__(
        self, text: str, status: int = 0, is_full: bool = False, retry_after_s: int = 0
    ) -> None:
        super().__init__(text)
        self.status = status
        self.is_full = is_full
        self.retry_after_s = retry_after_s

    @property
    def is_final(self) -> bool:
        """Whether the workload is gone for the portal."""
        return self.status in (401, 404, 410)
