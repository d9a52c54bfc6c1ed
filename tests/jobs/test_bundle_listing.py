"""What an upload says of its content, and what that may cost the portal."""

import io
import json
import resource
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from jobs import bundle_listing
from jobs.bundle_listing import UNREAD, Listing
from jobs.bundle_reader import CPU_S, MAX_NAMES
from portal.errors import Refused
from tests.jobs.costly_archives import (
    digits,
    folders,
    large_dictionary,
    long_name,
    long_pax,
    many_digits,
    million_names,
    sparse_map,
    zeros,
)
from tests.portal.whole import Whole, watching, whole_portal


def list_bundle(file: io.BytesIO, name: str, folder: Path, person: str = "alice") -> Listing:
    path = folder / "upload"
    path.write_bytes(file.getvalue())
    return bundle_listing.list_bundle(path, name, len(file.getvalue()), person=person)


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


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("code.zip", zipped(["train.py", "lib/", "lib/model.py"])),
        ("code.tar.gz", tarred(["./train.py", "./lib/model.py"])),
        ("code.tar", tarred(["train.py", "lib/model.py"], "w")),
        ("code.tar.xz", tarred(["train.py", "lib/model.py"], "w:xz")),
        ("code", tarred(["train.py", "lib/model.py"])),
    ],
)
def test_archives_of_each_kind_are_listed(name: str, file: io.BytesIO, tmp_path: Path) -> None:
    listing = list_bundle(file, name, tmp_path)
    assert listing.is_archive
    assert listing.files == (("train.py", 5), ("lib/model.py", 5))
    assert (listing.total, listing.is_cut, listing.top_folder) == (2, False, "")


def test_a_lone_top_folder_is_told(tmp_path: Path) -> None:
    file = zipped(["project/", "project/train.py", "project/lib/model.py"])
    assert list_bundle(file, "a.zip", tmp_path).top_folder == "project"


def test_a_file_beside_the_folder_keeps_the_folder(tmp_path: Path) -> None:
    file = zipped(["project/train.py", "README"])
    assert list_bundle(file, "a.zip", tmp_path).top_folder == ""


def test_a_script_is_its_own_content(tmp_path: Path) -> None:
    listing = list_bundle(io.BytesIO(b"print(1)"), "train.py", tmp_path)
    assert not listing.is_archive
    assert listing.files == (("train.py", 8),)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar", "a.zip"])
def test_what_calls_itself_an_archive_must_be_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"{name} cannot be read"):
        list_bundle(io.BytesIO(b"not an archive at all" * 100), name, tmp_path)


def test_a_cut_off_archive_is_told(tmp_path: Path) -> None:
    whole = tarred(["a.py", "b.py"], size_bytes=50_000).getvalue()
    half = io.BytesIO(whole[: len(whole) // 2])
    with pytest.raises(Refused):
        list_bundle(half, "a.tar.gz", tmp_path)


def test_long_lists_are_cut_and_counted(tmp_path: Path) -> None:
    file = zipped([f"f{n}.txt" for n in range(MAX_NAMES + 50)])
    listing = list_bundle(file, "a.zip", tmp_path)
    assert len(listing.files) == MAX_NAMES
    assert listing.total == MAX_NAMES + 50


def test_names_and_sizes_of_a_zip_are_those_that_the_library_reads(tmp_path: Path) -> None:
    names = ["é.py", "plain.py", "folder/", "folder/日本.txt"]
    file = zipped(names)
    with zipfile.ZipFile(file, "a") as archive, archive.open("big", "w", force_zip64=True) as big:
        big.write(b"x" * 70_000)
    with zipfile.ZipFile(file) as archive:
        right = tuple((i.filename, i.file_size) for i in archive.infolist() if not i.is_dir())
    assert list_bundle(file, "a.zip", tmp_path).files == right


def test_a_large_member_that_is_not_there_is_damage(tmp_path: Path) -> None:
    file = io.BytesIO()
    for name, size_bytes in (("small", 0), ("huge", 300 * 1024**2)):
        member = tarfile.TarInfo(name)
        member.size = size_bytes
        file.write(member.tobuf())
    with pytest.raises(Refused, match="unexpected end of data"):  # nothing of the member is there
        list_bundle(file, "a.tar", tmp_path)


def test_who_has_no_turn_hears_so_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One listing of a person at a time, two in all; the others are cut, and not refused."""
    monkeypatch.setattr(bundle_listing, "TURN_S", 0.05)
    goes_on = threading.Event()

    def read(*_: object) -> None:
        assert goes_on.wait(20)

    found: dict[str, Listing] = {}

    def ask(key: str, person: str) -> None:
        (tmp_path / key).mkdir()
        found[key] = list_bundle(zipped(["a"]), "a.zip", tmp_path / key, person)

    with monkeypatch.context() as patch:
        patch.setattr(bundle_listing, "_read", read)
        slow = [threading.Thread(target=ask, args=(who, who)) for who in ("alice", "bob")]
        slow[0].start()
        while len(bundle_listing._turns._busy) < 1:
            time.sleep(0.001)
        ask("again", "alice")
        slow[1].start()
        while len(bundle_listing._turns._busy) < 2:
            time.sleep(0.001)
        ask("third", "carol")
        assert found == {"again": UNREAD, "third": UNREAD}
        goes_on.set()
        for thread in slow:
            thread.join()
    assert list_bundle(zipped(["a"]), "a.zip", tmp_path).files == (("a", 5),)


# --- what costs much ------------------------------------------------------------------------------

MIB = 1024**2
# Why no pod unpacks it; "": that would take longer than anybody waits.
COSTLY: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "a pax header of a million digits": ("a.tar.bz2", digits, "absurdly long headers"),
    "400 pax headers of 16 KiB of digits": ("a.tar.bz2", many_digits, ""),
    "a long name of 600 MiB": ("a.tar.gz", long_name, "absurdly long headers"),
    "a pax header of 512 MiB": ("a.tar.gz", long_pax, "absurdly long headers"),
    "400,000 folders": ("a.tar.gz", folders, "more than 10000 members"),
    "a sparse map of 100 MiB": ("a.tar.gz", sparse_map, "is a sparse file"),
    "8 GiB of zeros": ("a.tar.gz", zeros, "unpacks to more than 2 GiB"),
    "a dictionary of 1 GiB": ("a.tar.xz", large_dictionary, "needs more than 96 MiB"),
    "a zip with a million names": ("a.zip", million_names, "more than 10000 members"),
}


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with whole_portal(tmp_path_factory.mktemp("listing") / "home") as whole:
        yield whole


@pytest.mark.parametrize("what", COSTLY)
def test_a_costly_archive_costs_nobody_else_anything(portal: Whole, what: str) -> None:
    name, make, refusal = COSTLY[what]
    data = make()
    with watching(portal.url, portal.pid) as seen:
        began = time.monotonic()
        answer = requests.post(
            f"{portal.url}/bundles/",
            files={"file": (name, data)},
            headers=portal.page_headers,
            timeout=60,
        )
        took_s = time.monotonic() - began
    print(
        f"{what}, {len(data):,} bytes: {took_s:.1f} s, slowest /healthz {seen.slowest_s:.2f} s, "
        f"+{seen.growth_bytes / MIB:.0f} MiB"
    )
    # Where others have the processor, the time may be over before the reader has come so far.
    if refusal and answer.status_code == 400:
        assert refusal in answer.text
    else:
        assert answer.status_code == 200, answer.text
        assert answer.json()["listing"]["is_archive"]
        assert answer.json()["listing"]["is_cut"]
    # Other tests have the same processors: what these bounds keep out takes minutes or gigabytes.
    assert took_s < 2 * bundle_listing.TIMEOUT_S
    assert not seen.errors
    assert seen.slowest_s < 2.5
    assert seen.growth_bytes < 300 * MIB


def test_the_reader_ends_by_itself(tmp_path: Path) -> None:
    """Its limits are its own: they hold when nobody waits for it any more."""
    path = tmp_path / "a.tar.bz2"
    path.write_bytes(many_digits())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*bundle_listing.COMMAND],
        input=json.dumps({"path": str(path), "name": "a.tar.bz2"}).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # By its own limit, which counts processor time: how long that takes is the machine's.
    assert used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime < CPU_S + 2
    assert not done.stdout or json.loads(done.stdout)["is_cut"]
