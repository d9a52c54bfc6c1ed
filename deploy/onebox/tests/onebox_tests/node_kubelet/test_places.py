"""What people read of a container has no folder of the node's own, whoever says it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from onebox.node.client import ApiError
from onebox.node.container import ContainerRunner
from onebox.node.environment import ConfigError
from onebox.node.events import Recorder, reference_to
from onebox.node.places import Places
from onebox.node.podspec import CreateError
from onebox.node.pulls import PullError
from onebox.node.record import new_records
from onebox.node.spec import StartError
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import ok
from onebox_tests.node_kubelet.pods import pod

HOME = Path("/srv/homeport home/onebox/node")
VOLUMES = HOME.parent / "volumes"
SAID = f"{HOME}/images/envs/ab12/bin/python: no such file; {VOLUMES}/u-ada/data is away"
SHOWN = "…/images/envs/ab12/bin/python: no such file; …/u-ada/data is away"


@pytest.mark.parametrize(
    "error",
    [
        PullError("ErrImagePull", SAID, 0.0),
        ConfigError(SAID),
        CreateError(SAID),
        StartError(128, "StartError", SAID),
        ApiError(500, "InternalError", SAID),
        OSError(SAID),
        RuntimeError(SAID),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_outcome_of_a_start_names_a_folder_of_the_node(
    start_api: StartApi, error: Exception
):
    api = await start_api(lambda _request: ok())
    recorder = Recorder(api.client, "onebox", places=Places([HOME, VOLUMES]))
    started = pod()
    host = SimpleNamespace(pod=started, pod_name="ns/p", changed=lambda: None)
    [record] = new_records(started)
    context = SimpleNamespace(recorder=recorder, images=None)
    runner = ContainerRunner(cast(Any, context), cast(Any, host), record)

    async def fail() -> None:
        raise error

    runner._bring_up = fail  # type: ignore[method-assign, assignment]
    await runner._run(record.stage)
    told = [record.state.message, *(event.message for event in recorder._known.values())]
    assert any(SHOWN in text for text in told)
    assert not [text for text in told if str(HOME.parent) in text]


async def test_no_event_names_one(start_api: StartApi, tmp_path: Path):
    """Links count as where they lead."""
    api = await start_api(lambda _request: ok())
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    recorder = Recorder(api.client, "onebox", places=Places([tmp_path / "link", Path("/")]))
    said = f"mount {tmp_path}/real/pods/x on {tmp_path}/link/pods/y, not /data"
    recorder.record(reference_to(pod()), "Warning", "FailedMount", said)
    [event] = recorder._known.values()
    assert event.message == "mount …/pods/x on …/pods/y, not /data"
