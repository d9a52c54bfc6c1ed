"""Runs pytest beside a PostgreSQL and a Redis of its own: `[--s3] WORDS FOR PYTEST`.

With --s3 trainings keep their files on an S3 server, in place of a folder.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.tools import servers
from tests.tools.children import run_to_the_end

POD_S3_PORT = 9000  # at the embedded cluster's gateway


@contextmanager
def environment(*, has_s3: bool) -> Iterator[dict[str, str]]:
    """What leads to the servers while the context is open.

    Raises:
        NoServerError: one of them is not installed.
    """
    with ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(prefix="homeport-servers-"))
        folder = Path(made)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        found = {
            "TESTS_WITH_SERVERS": "1",
            "DATABASE_URL": stack.enter_context(servers.postgres(folder / "postgres")),
            "REDIS_URL": stack.enter_context(servers.redis(folder / "redis")),
        }
        if has_s3:
            found |= stack.enter_context(servers.s3(folder / "s3"))
            port = found["S3_ENDPOINT"].rpartition(":")[2]
            found["S3_POD_ENDPOINT"] = f"http://10.244.0.1:{POD_S3_PORT}"
            found["ONEBOX_ARGS"] = f"--forward {port}:{POD_S3_PORT}"
        yield found


def main() -> int:
    """pytest's exit code."""
    has_s3, words = "--s3" in sys.argv, [word for word in sys.argv[1:] if word != "--s3"]
    with environment(has_s3=has_s3) as found:
        return run_to_the_end([sys.executable, "-m", "pytest", *words], {**os.environ, **found})


if __name__ == "__main__":
    sys.exit(main())
