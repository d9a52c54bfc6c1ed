"""What an upload says of its content."""

import io
import tarfile
import zipfile

import pytest

from jobs.bundle_listing import MAX_NAMES, BrokenArchiveError, list_bundle


def zipped(names: list[str]) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"" if name.endswith("/") else b"12345")
    return file


def tarred(names: list[str], mode: str = "w:gz", size_bytes: int = 5) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = size_bytes
            archive.addfile(member, io.BytesIO(b"\0" * size_bytes))
    return file


def size_of(file: io.BytesIO) -> int:
    return len(file.getvalue())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("code.zip", zipped(["train.py", "lib/", "lib/model.py"])),
        ("code.tar.gz", tarred(["./train.py", "./lib/model.py"])),
        ("code.tar", tarred(["train.py", "lib/model.py"], "w")),
        ("code.tar.xz", tarred(["train.py", "lib/model.py"], "w:xz")),
    ],
)
def test_archives_of_each_kind_are_listed(name: str, file: io.BytesIO) -> None:
    listing = list_bundle(file, name, size_of(file))
    assert listing.is_archive
    assert listing.files == (("train.py", 5), ("lib/model.py", 5))
    assert (listing.total, listing.is_cut, listing.top_folder) == (2, False, "")
    assert file.tell() == 0


def test_a_lone_top_folder_is_told() -> None:
    file = zipped(["project/train.py", "project/lib/model.py"])
    assert list_bundle(file, "a.zip", size_of(file)).top_folder == "project"


def test_a_file_beside_the_folder_keeps_the_folder() -> None:
    file = zipped(["project/train.py", "README"])
    assert list_bundle(file, "a.zip", size_of(file)).top_folder == ""


def test_a_script_is_its_own_content() -> None:
    listing = list_bundle(io.BytesIO(b"print(1)"), "train.py", 8)
    assert not listing.is_archive
    assert listing.files == (("train.py", 8),)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar"])
def test_what_calls_itself_an_archive_must_be_one(name: str) -> None:
    with pytest.raises(BrokenArchiveError, match=f"{name} cannot be read"):
        list_bundle(io.BytesIO(b"not an archive at all" * 100), name, 2100)


def test_a_cut_off_archive_is_told() -> None:
    whole = tarred(["a.py", "b.py"], size_bytes=50_000).getvalue()
    half = io.BytesIO(whole[: len(whole) // 2])
    with pytest.raises(BrokenArchiveError):
        list_bundle(half, "a.tar.gz", len(half.getvalue()))


def test_long_lists_are_cut_and_counted() -> None:
    file = zipped([f"f{n}.txt" for n in range(MAX_NAMES + 50)])
    listing = list_bundle(file, "a.zip", size_of(file))
    assert len(listing.files) == MAX_NAMES
    assert listing.total == MAX_NAMES + 50


def test_a_bomb_is_not_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.bundle_listing.MAX_READ_BYTES", 100_000)
    file = tarred(["small", "huge", "never seen"], size_bytes=90_000)
    listing = list_bundle(file, "a.tar.gz", size_of(file))
    assert listing.is_cut
    assert [path for path, _size in listing.files] == ["small", "huge"]
