"""Every committed transcript, played anew: upstream still says so, and onebox says the same."""

from __future__ import annotations

import pytest

from tests.contract import exceptions, transcripts
from tests.contract.clusters import Cluster
from tests.contract.compare import differences
from tests.contract.conftest import Plays
from tests.contract.script import all_scripts

NAMES = sorted(all_scripts())
_SHOWN = 12


@pytest.mark.parametrize("script_name", NAMES)
def test_the_cluster_answers_as_upstream_did(
    script_name: str, plays: Plays, cluster: Cluster, record_property: pytest.RecordProperty
) -> None:
    steps, error = plays.of(script_name)
    excuses = exceptions.load() if cluster.side == "onebox" else []
    found = differences(transcripts.load(script_name), steps)
    judged = exceptions.judge(script_name, found, excuses)
    record_property("excuses", sorted({used for used, _ in judged.used}))
    shown = "\n".join(map(str, judged.failures[:_SHOWN]))
    assert not judged.failures, f"{len(judged.failures)} differences, {error or ''}:\n{shown}"
    if error is not None and not judged.used:
        raise error
