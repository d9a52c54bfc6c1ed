"""Downloads: no path leads out, what broke off goes on, nothing half is left under its name."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport_client.artifacts import PART, TRIES, safe_path
from homeport_client.exits import NOT_FOUND, UNREACHABLE, ClientError
from tests.jobs.client.world import JOB_ID, Answer, Asked, CommandLine, Scripted, job, listed

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)


def row(path: str, size_bytes: Any = SIZE, identity: str = "a1") -> dict[str, Any]:
    at = "2026-11-20T10:00:00Z"
    return {"id": identity, "path": path, "size_bytes": size_bytes, "uploaded_at": at}


class Store:
    """The bytes behind one artifact; answers in part, and breaks off as often as told."""

    def __init__(self, content: bytes = CONTENT, breaks: int = 0) -> None:
        self.content = content
        self.breaks = breaks
        self.tag = '"1"'
        self.starts: list[int] = []

    def __call__(self, asked: Asked) -> Answer:
        given_range = asked.headers.get("Range", "")
        start = 0
        if given_range and asked.headers.get("If-Range") == self.tag:
            start = int(given_range[len("bytes=") : -1])
        self.starts.append(start)
        headers = {"ETag": self.tag}
        data = self.content[start:]
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        cut = None
        if self.breaks:
            self.breaks -= 1
            cut = len(data) // 3
        return Answer(status=206 if start else 200, headers=headers, data=data, cut=cut)


@pytest.fixture
def left(portal: Scripted) -> Any:
    """`left(rows, id=store)`: what the training left."""

    def leave(*rows: dict[str, Any], **stores: Store) -> None:
        portal.answers[f"GET jobs/{JOB_ID}/"] = job(state="succeeded")
        portal.answers[f"GET jobs/{JOB_ID}/artifacts/"] = listed(*rows)
        for identity, store in stores.items():
            portal.answers[f"GET jobs/{JOB_ID}/artifacts/{identity}/"] = store

    return leave


def download(homeport: CommandLine, target: Path, *words: str) -> Any:
    return homeport("artifacts", "download", JOB_ID, "-d", str(target), *words)


def test_files_arrive_with_their_folders(homeport: CommandLine, left: Any, tmp_path: Path) -> None:
    left(row("checkpoints/model.ckpt"), row("report.txt", 3, "a2"), a1=Store(), a2=Store(b"yes"))
    ran = download(homeport, tmp_path / "out")
    assert ran.code == 0, ran.err
    assert (tmp_path / "out/checkpoints/model.ckpt").read_bytes() == CONTENT
    assert (tmp_path / "out/report.txt").read_bytes() == b"yes"
    assert sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file()) == [
        "model.ckpt",
        "report.txt",
    ]
    count = len(homeport.asked)
    assert "(was here)" in download(homeport, tmp_path / "out").out
    assert len(homeport.asked) == count + 2, "what is here is not fetched again"
    (tmp_path / "out/report.txt").unlink()
    assert download(homeport, tmp_path / "out", "report*").code == 0
    assert download(homeport, tmp_path / "out", "checkpoints/").code == 0
    assert download(homeport, tmp_path / "out", "nothing*").code == NOT_FOUND


def test_a_download_that_breaks_off_goes_on(
    homeport: CommandLine, left: Any, tmp_path: Path
) -> None:
    store = Store(breaks=3)
    left(row("model"), a1=store)
    ran = download(homeport, tmp_path)
    assert ran.code == 0, ran.err
    assert (tmp_path / "model").read_bytes() == CONTENT
    assert store.starts == sorted(store.starts)
    assert store.starts[-1] > 0


def test_the_next_command_goes_on_too(homeport: CommandLine, left: Any, tmp_path: Path) -> None:
    store = Store(breaks=TRIES)
    left(row("model"), a1=store)
    assert download(homeport, tmp_path).code == UNREACHABLE
    assert not (tmp_path / "model").exists()
    here = (tmp_path / f"model{PART}").stat().st_size
    assert here > 0
    assert download(homeport, tmp_path).code == 0
    assert store.starts[-1] == here
    assert (tmp_path / "model").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir() if "model" in path.name] == ["model"]


def test_a_file_that_changed_meanwhile_begins_anew(
    homeport: CommandLine, left: Any, tmp_path: Path
) -> None:
    store = Store(breaks=TRIES)
    left(row("model"), a1=store)
    assert download(homeport, tmp_path).code == UNREACHABLE
    store.content, store.tag = CONTENT[::-1], '"2"'
    assert download(homeport, tmp_path).code == 0
    assert (tmp_path / "model").read_bytes() == CONTENT[::-1]


def test_more_than_was_announced_is_not_taken(
    homeport: CommandLine, left: Any, tmp_path: Path
) -> None:
    left(row("model", 100), a1=Store())
    ran = download(homeport, tmp_path)
    assert ran.code == 1
    assert "larger than the 100 bytes" in ran.err
    assert not (tmp_path / "model").exists()


BAD = [
    "../evil",
    "/etc/evil",
    "a/../../evil",
    "a//b",
    "./a",
    "a/./b",
    "..",
    "a/",
    "a\\b",
    "C:evil",
    "a\x00b",
    "a\x1b[2J",
]


@pytest.mark.parametrize("path", [*BAD, "", "x" * 300])
def test_a_path_that_leads_elsewhere_is_left_out(
    homeport: CommandLine, left: Any, tmp_path: Path, path: str
) -> None:
    left(row(path), row("good", 3, "a2"), a1=Store(), a2=Store(b"yes"))
    target = tmp_path / "deep" / "out"
    ran = download(homeport, target)
    assert ran.code == 1
    assert "\x1b" not in ran.out + ran.err
    files = [p for p in (tmp_path / "deep").rglob("*") if p.is_file()]
    assert files == [target / "good"]


@given(st.text())
def test_no_path_leads_out(path: str) -> None:
    target = Path("/nowhere/out")
    try:
        found = safe_path(target, path)
    except ClientError:
        return
    assert target in found.parents
    assert ".." not in found.parts


def test_links_that_are_there_are_not_followed(
    homeport: CommandLine, left: Any, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("mine")
    target = tmp_path / "out"
    target.mkdir()
    (target / "folder").symlink_to(outside)
    (target / "file").symlink_to(outside / "victim")
    (target / f"part{PART}").symlink_to(outside / "victim")
    left(row("folder/victim"), row("file"), row("part"), a1=Store())
    ran = download(homeport, target)
    assert ran.code == 1
    assert (outside / "victim").read_text() == "mine"
    assert sorted(path.name for path in outside.iterdir()) == ["victim"]
