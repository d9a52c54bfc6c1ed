"""What goes wrong in a pod, in sentences for people."""


class PodError(Exception):
    """A program of ours cannot do its work; `reason` is one of the codes in `protocol/codes.py`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
