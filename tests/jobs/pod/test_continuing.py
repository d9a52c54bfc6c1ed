"""A training that goes on in another one's folder keeps log, artifacts and rescue of its own."""

import os
from pathlib import Path

import pytest

from jobs.pod import checkpoints
from jobs.pod.checkpoints import find_checkpoint
from tests.jobs.pod.pods import FakeDoor, Pod
from tests.jobs.pod.test_rescue import kill_all

WRITES = (
    "import os\n"
    "open(os.environ['LOG_DIR'] + '/ckpt-{n}.index', 'w').write('{n}')\n"
    "open(os.environ['ARTIFACTS_DIR'] + '/model', 'w').write('{n}')\n"
    "print('this is {n}', flush=True)\n"
)


def test_log_artifacts_and_rescue_of_both(pod: Pod, door: FakeDoor) -> None:
    old = pod.folder
    pod.python(WRITES.format(n=1))
    assert pod.run()[0] == 0
    assert door.ends[0]["checkpoint"]["name"] == "ckpt-1"
    first = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    for path in first:
        os.utime(path, (1000, 1000))
    door.objects.clear()
    door.artifacts.clear()
    door.segments.clear()
    new = old.with_name("second")
    pod.config.update(folder=str(new), log_dir=str(old), since=2000)
    kill_all(pod, WRITES.format(n=2), 15)
    assert pod.program("rescue") == (0, "[homeport] attempt 1 of worker-0 is shipped\n")
    assert b"this is 2" in door.log()
    assert b"this is 1" not in door.log()
    assert door.objects["/a/artifacts/model"] == b"2"
    assert {path for path in door.objects if path.startswith("/a/")} == {
        "/a/artifacts/model",
        "/a/ckpt-2.index",
    }
    assert door.ends[1]["checkpoint"]["name"] == "ckpt-2"
    assert {path: path.read_bytes() for path in first} == first
    # The first one's own rescue finds its mark, and nothing to do.
    del pod.config["log_dir"], pod.config["since"]
    pod.config["folder"] = str(old)
    assert pod.program("rescue") == (0, "[homeport] nothing was left to ship\n")


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["ckpt-7.index", "ckpt-7.data-00000-of-00001"], "ckpt-7"),
        (["model.ckpt-90.meta"], "model.ckpt-90"),
        (["a/b/epoch=3-step=2.ckpt"], "a/b/epoch=3-step=2.ckpt"),
        (["m.pt"], "m.pt"),
        (["m.pth"], "m.pth"),
        (["m.keras"], "m.keras"),
        (["m.safetensors"], "m.safetensors"),
        (["run/4200/_CHECKPOINT_METADATA", "run/4200/default/manifest.ocdbt"], "run/4200"),
        (["4200.orbax-checkpoint-tmp-1/_CHECKPOINT_METADATA", "x.pt.tmp", "events.out"], ""),
        ([".homeport/x.pt"], ""),
        (["bad\nname.pt"], "bad?name.pt"),
    ],
)
def test_what_is_a_checkpoint(tmp_path: Path, files: list[str], name: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    found = find_checkpoint([str(tmp_path)])
    assert (found.name if found else "") == name


def test_the_newest_counts_and_the_search_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/log/x/ckpt-9"\n')
    (tmp_path / "old.pt").write_text("")
    os.utime(tmp_path / "old.pt", (1000, 1000))
    found = find_checkpoint([str(tmp_path)])
    assert found
    assert found.name == "ckpt-9"
    assert find_checkpoint([str(tmp_path)], most_s=-1) is None
    monkeypatch.setattr(checkpoints, "MOST_ENTRIES", 0)
    assert find_checkpoint([str(tmp_path)]) is None
