"""How many answers are streamed at once, in this process: of one person, and of all.

Each has a thread's turns, pieces in memory and a connection for as long as somebody takes it, and who
leaves it unread keeps all of that (portal/server/http_protocol.py ends those in time). Counted here is what
a person has; portal/server/download_door.py refuses a flood before it costs a thread.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable

from django.utils.translation import gettext_lazy as _

from portal.errors import Refused

MAX_PER_PERSON = 4
MAX_DOWNLOADS = 32
RETRY_S = 5
CODE = "too_many_downloads"
HOLD = "homeport.hold_download"  # in the scope of a request: hears what gives its places back
TOO_MANY_OF_ONE = _(
    "Four of your downloads are already under way, in all browsers and programs together. Wait until "
    "one has ended, or stop one."
)
TOO_MANY = _("Too many people are downloading at the moment. Try again soon.")


class Places:
    """Those that are in use. Taken in any thread, given back in any other one.

    The garbage collector may give one back within any step of a thread, also of one that has the lock: such a thread
    gets it again, and no step leaves anything half done.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._used: Counter[Hashable] = Counter()

    def take(self, person: Hashable) -> Callable[[], None]:
        """One more of this person; what is returned gives it back, and is harmless the second time.

        Raises:
            Refused: 429 for what one person has, 503 for all.
        """
        with self._lock:
            if self._used[person] >= MAX_PER_PERSON:
                raise Refused(str(TOO_MANY_OF_ONE), CODE, 429, retry_after_s=RETRY_S)
            if self._used.total() >= MAX_DOWNLOADS:
                raise Refused(str(TOO_MANY), CODE, 503, retry_after_s=RETRY_S)
            self._used[person] += 1
        held = [person]

        def give_back() -> None:
            if not held:  # as mostly when it is collected
                return
            with self._lock:
                if not held:
                    return
                held.clear()
                self._used[person] -= 1
                if self._used[person] <= 0:
                    self._used.pop(person, None)

        return give_back

    def count(self, person: Hashable) -> int:
        """How many this person has."""
        with self._lock:
            return self._used[person]


places = Places()
