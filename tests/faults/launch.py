"""Starts Homeport as `python -m deploy.run` does, its portal with a fault: see `serve.py`."""

import dataclasses
import sys

from deploy import run
from deploy.child import Child


class Plan(run.Plan):
    """Of an installation whose portal has a fault."""

    def portal(self) -> Child:
        return dataclasses.replace(
            super().portal(), argv=[sys.executable, "-m", "tests.faults.serve"]
        )


if __name__ == "__main__":
    run.Plan = Plan  # type: ignore[misc]
    sys.exit(run.main())
