"""Where a viewer stands in the logs of a job: one opaque text over all of its replicas.

While a pod lives its lines are known by kubelet time and by their number among lines of the same
time; in the archive a place is a byte. `anchor` is a digest of the last lines shown live, by which
the same place is found in the archive, which knows no times.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ANCHOR_LINES = 4
ANCHOR_LINE_BYTES = 1024  # of each line; longer ones may have been cut on the way
_MAX_TEXT = 64 * 1024
_PART = re.compile(
    r"(?P<replica>[a-z]{1,9}-\d{1,4})"
    r"(?:\.l\.(?P<attempt>\d{1,6})\.(?P<time_ns>\d{1,19})\.(?P<ordinal>\d{1,9})"
    r"\.(?P<anchor>(?:\d[0-9a-f]{12})?)"
    r"|\.a\.(?P<archived>\d{1,6})\.(?P<byte>\d{1,18}))"
)


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A line of a living pod: kubelet time in ns, and its number among lines of that time."""

    time_ns: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class LivePlace:
    """Shown up to a line of a living pod."""

    attempt: int
    position: Position
    anchor: str = ""

    def text(self, replica: str) -> str:
        place = f"{self.position.time_ns}.{self.position.ordinal}"
        return f"{replica}.l.{self.attempt}.{place}.{self.anchor}"


@dataclass(frozen=True, slots=True)
class ArchivedPlace:
    """Shown up to a byte of an archived log."""

    attempt: int
    byte: int

    def text(self, replica: str) -> str:
        return f"{replica}.a.{self.attempt}.{self.byte}"


Place = LivePlace | ArchivedPlace


def anchor_of(lines: Iterable[bytes]) -> str:
    """A digest of up to `ANCHOR_LINES` lines in a row, which begins with how many they are."""
    kept = [line[:ANCHOR_LINE_BYTES] for line in lines]
    digest = hashlib.blake2b(b"\n".join(kept), digest_size=6).hexdigest()
    return f"{len(kept)}{digest}"


def write(places: Mapping[str, Place]) -> str:
    """The text for these places; `read` gives them back. Only letters that a URL leaves alone."""
    return "~".join(place.text(replica) for replica, place in places.items())


def read(text: str) -> dict[str, Place]:
    """Replica name -> place; what is not understood is left out, so that it is shown anew."""
    places: dict[str, Place] = {}
    for part in text[:_MAX_TEXT].split("~"):
        match = _PART.fullmatch(part)
        if match is None:
            continue
        found = match.groupdict()
        if found["byte"] is not None:
            place: Place = ArchivedPlace(int(found["archived"]), int(found["byte"]))
        else:
            position = Position(int(found["time_ns"]), int(found["ordinal"]))
            place = LivePlace(int(found["attempt"]), position, found["anchor"])
        places[found["replica"]] = place
    return places
