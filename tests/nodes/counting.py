"""A training on the nodes that counts until it is told to end, so that a line which is lost or doubled is seen."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.e2e.portal import Rest
from tests.nodes.installed import log
from tests.nodes.site import Site
from tests.nodes.test_inside import COUNT, SMALL, START_S, python
from tests.tools.waiting import wait_for


@dataclass(frozen=True)
class Counting:
    """One of the site's person that counts already."""

    site: Site
    job: dict[str, Any]
    until: str

    def end(self) -> None:
        """It ends by itself, was never begun again, and its log has each number once."""
        self.site.touch(self.job, self.until)
        done = self.site.ada.wait(self.job, "succeeded", timeout_s=START_S)
        assert done["retries"] == 0
        kept = wait_for("its log", lambda: log(self.site.ada, self.job["id"]))
        numbers = [int(one) for one in re.findall(r"count (\d+)", kept)]
        gaps = [pair for pair in pairwise([-1, *numbers]) if pair[1] != pair[0] + 1]
        assert not gaps, (
            f"{len(numbers)} numbers, of which these are not neighbours: {gaps[:5]}\n{kept[:400]}"
        )


def begin(rest: Rest, until: str) -> dict[str, Any]:
    """A training that counts until there is this file, and does so already."""
    job = rest.submit(name="counts", command=python(COUNT, until), replicas={"worker": SMALL})
    tail = f"jobs/{job['id']}/logs/?tail=50"
    wait_for("it counts", lambda: "count 9" in rest.text(tail), timeout_s=START_S)
    return job


def of(site: Site, name: str) -> Counting:
    """One that nobody else ends by the same name."""
    until = f"/data/{name}"
    return Counting(site, begin(site.ada, until), until)
