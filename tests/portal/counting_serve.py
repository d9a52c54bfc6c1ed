"""`manage.py` that tells how many bytes came over each connection: tests read that in the file COUNT.

`python -m tests.portal.counting_serve serve ...`; one line for each connection that has ended: the
port of the other side, and the bytes.
"""

import os
import sys
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

COUNT = Path(os.environ["COUNT"])


def main() -> None:
    received, lost = H11Protocol.data_received, H11Protocol.connection_lost

    def data_received(self: Any, data: bytes) -> None:
        self.count = getattr(self, "count", 0) + len(data)
        received(self, data)

    def connection_lost(self: Any, exc: Exception | None) -> None:
        with COUNT.open("a") as file:
            file.write(f"{self.client[1]} {getattr(self, 'count', 0)}\n")
        lost(self, exc)

    H11Protocol.data_received, H11Protocol.connection_lost = data_received, connection_lost
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()
