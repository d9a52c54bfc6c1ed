"""Packing a folder: the same files give the same bytes, and a pod gets what was there."""

import io
import os
import socket
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homeport_client import pack as packing
from homeport_client.exits import REFUSED, ClientError
from homeport_client.pack import pack, select
from jobs.pod.unpack import unpack


def packed(folder: Path) -> tuple[bytes, str]:
    file = io.BytesIO()
    sha256, size_bytes = pack(select(folder), file)
    assert size_bytes == len(file.getvalue())
    return file.getvalue(), sha256


def unpacked(data: bytes, target: Path) -> dict[str, tuple[bytes, bool]]:
    """What a pod makes of it: path -> content, and whether it may be executed."""
    archive = target / "code.tar.gz"
    archive.write_bytes(data)
    folder = target / "out"
    folder.mkdir()
    unpack(str(archive), "tar", str(folder))
    (top,) = folder.iterdir()  # the one folder that pods take off
    return {
        path.relative_to(top).as_posix(): (path.read_bytes(), os.access(path, os.X_OK))
        for path in top.rglob("*")
        if path.is_file()
    }


NAME = st.text(
    st.characters(blacklist_categories=["Cc", "Cs"], blacklist_characters="/\\"),
    min_size=1,
    max_size=60,
).filter(lambda n: n not in {".", ".."} and len(n.encode()) < 200 and not n.startswith(".git"))
FILES = st.dictionaries(
    st.lists(NAME, min_size=1, max_size=4).map("/".join),
    st.tuples(st.binary(max_size=300), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(files=FILES)
def test_a_pod_gets_what_was_there(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[bytes, bool]]
) -> None:
    root = tmp_path_factory.mktemp("packing")
    first, second = root / "first", root / "second"
    made: dict[str, tuple[bytes, bool]] = {}
    for name, (content, may_run) in files.items():
        try:
            for folder in (first, second):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o700 if may_run else 0o640)
            made[name] = (content, may_run)
        except OSError:
            continue  # a name that is file and folder at once
    # What ignore files name of their own accord is not part of this.
    kept = {entry.path for entry in select(first).entries}
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
    data, sha256 = packed(first)
    assert (data, sha256) == packed(second), "times and places do not count"
    assert unpacked(data, root) == {name: made[name] for name in kept}


def test_a_lone_folder_is_still_there_in_the_pod(tmp_path: Path) -> None:
    (tmp_path / "code" / "src").mkdir(parents=True)
    (tmp_path / "code" / "src" / "train.py").write_text("x")
    data, _sha256 = packed(tmp_path / "code")
    assert set(unpacked(data, tmp_path)) == {"src/train.py"}


def test_nothing_of_the_sender_is_in_the_archive(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x")
    data, _sha256 = packed(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        (member,) = archive.getmembers()
    assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
    assert data[4:8] == b"\0\0\0\0", "gzip's own time"
    assert str(tmp_path).encode() not in data


def test_a_link_next_to_its_file_is_sent_as_a_copy(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("content")
    (tmp_path / "b.py").symlink_to("a.py")
    data, _sha256 = packed(tmp_path)
    assert unpacked(data, tmp_path)["b.py"][0] == b"content"


def test_what_is_no_file_of_the_folder_is_left_out_with_a_word(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    folder = tmp_path / "code"
    (folder / "sub").mkdir(parents=True)
    (folder / "train.py").write_text("x")
    (folder / "up").symlink_to(outside)
    (folder / "loop").symlink_to("loop")
    (folder / "dir").symlink_to("sub")
    (folder / "round").symlink_to(".")
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    try:
        chosen = select(folder)
    finally:
        listener.close()
    assert [entry.path for entry in chosen.entries] == ["train.py"]
    assert len(chosen.warnings) == 6
    assert "secret" not in "".join(entry.path for entry in chosen.entries)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\\b", "/".join(["x" * 200] * 6)])
def test_a_name_that_pods_refuse_is_refused_before_sending(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    with pytest.raises(ClientError) as caught:
        select(tmp_path)
    assert caught.value.code == REFUSED
    assert "\x1b" not in caught.value.text
    assert "\n" not in caught.value.text


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff\xfe", "wb"):
        pass
    with pytest.raises(ClientError, match="not UTF-8"):
        select(tmp_path)


def test_nothing_to_send_says_why(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="no file to send"):
        select(tmp_path)
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "train.py").write_text("x")
    with pytest.raises(ClientError, match="2 are ignored"):
        select(tmp_path)


def test_too_many_files_and_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"x" * (number + 1))
    monkeypatch.setattr(packing, "MAX_FILES", 3)
    with pytest.raises(ClientError, match="more than 3 files"):
        select(tmp_path)
    monkeypatch.setattr(packing, "MAX_FILES", 4)
    monkeypatch.setattr(packing, "MAX_BYTES", 9)
    with pytest.raises(ClientError, match=r"the largest are 3 \(4\)"):
        select(tmp_path)


def test_a_file_that_shrinks_while_it_is_read_is_no_half_of_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    chosen = select(tmp_path)
    path.unlink()
    with pytest.raises(ClientError, match="log cannot be read"):
        pack(chosen, io.BytesIO())


def test_a_file_that_nobody_may_read_is_named(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root reads everything")
    path = tmp_path / "key"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(ClientError, match="key cannot be read"):
        pack(select(tmp_path), io.BytesIO())
    assert stat.S_IMODE(path.stat().st_mode) == 0
