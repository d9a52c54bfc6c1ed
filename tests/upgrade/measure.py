"""How long the migrations to one table take: `python -m tests.measure migrations [postgresql]`.

10,000 trainings with 36,000 replicas and 200,000 events, and 800 services with 16,000, each with manifests
of the usual size.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

TRAININGS, SERVICES = 10_000, 800


def main(kind: str = "sqlite") -> None:
    """Fills a database as the version before had it, migrates it, and says how long that took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="homeport-measure-")))
        folder.chmod(0o755)  # PostgreSQL runs as another user
        os.environ |= {"HOMEPORT_HOME": str(folder), "DJANGO_SETTINGS_MODULE": "portal.settings"}
        import django

        django.setup()
        from tests.portal.databases import ALIAS, migrate, postgresql, sqlite
        from tests.tools import servers
        from tests.upgrade.old_rows import OldTables, write_many

        if kind == "sqlite":
            stack.enter_context(sqlite(folder / "homeport.sqlite3"))
        else:
            url = stack.enter_context(servers.postgres(folder / "postgresql", fsync="on"))
            stack.enter_context(postgresql(url))
        write_many(OldTables(ALIAS), TRAININGS, SERVICES)
        load, began_s = os.getloadavg()[0], time.monotonic()
        migrate()
        took_s = time.monotonic() - began_s
        sys.stdout.write(f"{kind}: {took_s:.1f} s, beside a load of {load:.1f}\n")
