"""Archives that try to get out, to fill the disk or the memory, or are simply broken."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.pod import unpack
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes
from tests.jobs.archives import special, tar_of, zip_of


@pytest.fixture
def box() -> Iterator[Path]:
    """A folder with a sentinel next to the target: nothing but the target may change."""
    root = Path(tempfile.mkdtemp(prefix="homeport-unpack-"))
    (root / "target").mkdir()
    (root / "sentinel").write_text("untouched")
    yield root
    assert (root / "sentinel").read_text() == "untouched"
    assert sorted(path.name for path in root.iterdir()) == ["archive", "sentinel", "target"]
    assert not any(path.is_symlink() for path in (root / "target").rglob("*"))
    shutil.rmtree(root)


@contextlib.contextmanager
def refused(*reasons: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[PodError]]:
    """The archive is refused for one of these reasons."""
    with pytest.raises(PodError, match=match) as caught:
        yield caught
    assert caught.value.reason in reasons


def zip_link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = 0o120777 << 16
    return info, target.encode()


def pax(name: str, headers: dict[str, str], **fields: Any) -> tarfile.TarInfo:
    return special(name, tarfile.REGTYPE, pax_headers=headers, **fields)


def run(box: Path, data: bytes, kind: str) -> int:
    (box / "archive").write_bytes(data)
    return unpack.unpack(str(box / "archive"), kind, str(box / "target"))


def files(box: Path) -> dict[str, bytes]:
    target = box / "target"
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file()
    }


GOOD = (("train.py", b"print(1)\n"), ("pkg/__init__.py", b""), ("pkg/data ä.txt", b"d" * 5000))


COMPRESSIONS = [
    pytest.param(pack, id=name)
    for name, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress))
]


@pytest.mark.parametrize("pack", [pytest.param(bytes, id="tar"), *COMPRESSIONS])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_honest_tars_of_every_kind_are_unpacked(
    box: Path, pack: Callable[[bytes], bytes], form: int
) -> None:
    assert run(box, pack(tar_of(*GOOD, format=form)), "tar") == 3
    assert files(box) == dict(GOOD)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_honest_zips_of_every_method_are_unpacked(box: Path, method: int) -> None:
    assert run(box, zip_of(*GOOD, compression=method), "zip") == 3
    assert files(box) == dict(GOOD)


def test_long_names_and_several_compressed_streams_are_honest_too(box: Path) -> None:
    name = "a" * 100 + "/" + "b" * 200 + "/c"
    data = tar_of((name, b"1"), ("ä" * 100, b"2"))
    packed = gzip.compress(data[:700]) + gzip.compress(data[700:]) + bytes(100)
    assert run(box, packed, "tar") == 2
    assert files(box) == {name: b"1", "ä" * 100: b"2"}


def test_modes_keep_only_whether_a_file_can_be_executed(box: Path) -> None:
    script = special("run.sh", tarfile.REGTYPE, mode=0o6777, size=1)
    secret = special("secret", tarfile.REGTYPE, mode=0o000, size=1)
    run(box, tar_of(script, secret), "tar")
    assert (box / "target/run.sh").stat().st_mode & 0o7777 == 0o755
    assert (box / "target/secret").stat().st_mode & 0o7777 == 0o644


def test_what_macos_adds_to_zips_is_left_out(box: Path) -> None:
    run(box, zip_of(("a.py", b"1"), ("__MACOSX/._a.py", b"junk")), "zip")
    assert files(box) == {"a.py": b"1"}


def test_a_zip_of_windows_has_folders(box: Path) -> None:
    data = zip_of(
        ("train.py", b"1"), ("src\\", b""), ("src\\model.py", b"2"), ("src/a\\b.py", b"3")
    )
    assert run(box, data, "zip") == 3
    assert files(box) == {"train.py": b"1", "src/model.py": b"2", "src/a/b.py": b"3"}


UNSAFE_NAMES = {
    "absolute": ("/tmp/x",),
    "parent": ("../sentinel",),
    "parent in the middle": ("a/../../sentinel",),
    "backslash": ("..\\sentinel",),
    "drive": ("C:/x",),
    "drive and backslash": ("C:\\sentinel",),
    "control character": ("a\x1b[31m",),
    "bell": ("a\x07",),
    "line break": ("a\nb",),
    "c1 control": ("a\x9bb",),
    "file below a file": ("a", "a/b"),
    "too long a name": ("a" * 300,),
    "too deep": ("a/" * 600 + "b",),
}
UNSAFE_TARS = {
    **{what: tar_of(*((name, b"1") for name in names)) for what, names in UNSAFE_NAMES.items()},
    "parent at the end": tar_of(special("a/..", tarfile.DIRTYPE)),
    "not utf-8": tar_of(("a\udcff", b"1")),
    "symlink": tar_of(special("link", tarfile.SYMTYPE, "/etc/passwd")),
    "symlink to a file of its own": tar_of(("a", b"1"), special("link", tarfile.SYMTYPE, "a")),
    "symlink, then through it": tar_of(
        special("d", tarfile.SYMTYPE, ".."), ("d/sentinel", b"gone")
    ),
    "hard link": tar_of(special("link", tarfile.LNKTYPE, "../sentinel")),
    "hard link to a file of its own": tar_of(("a", b"1"), special("b", tarfile.LNKTYPE, "a")),
    "device": tar_of(special("null", tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "block device": tar_of(special("disk", tarfile.BLKTYPE, devmajor=8)),
    "pipe": tar_of(special("pipe", tarfile.FIFOTYPE)),
    "twice": tar_of(("a", b"1"), ("a", b"2")),
    "twice, written differently": tar_of(("a", b"1"), ("./a", b"2")),
    "file over a folder": tar_of(special("a", tarfile.DIRTYPE), ("a", b"2")),
    "folder over a file": tar_of(("a", b"2"), special("a", tarfile.DIRTYPE)),
    "no name": tar_of(("./", b"1")),
    "gnu sparse": tar_of(special("s", tarfile.GNUTYPE_SPARSE)),
    "pax sparse 0.1": tar_of(pax("s", {"GNU.sparse.map": "0,1", "GNU.sparse.size": "9"})),
    "pax sparse 1.0": tar_of(
        pax("s", {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, size=512)
    ),
    "pax path": tar_of(pax("ok", {"path": "../sentinel"})),
    "huge pax header": tar_of(pax("ok", {"comment": "x" * 2**20})),
    "huge gnu name": tar_of(("a/" * 20000 + "b", b"1"), format=tarfile.GNU_FORMAT),
    "gnu volume label": tar_of(special("label", b"V")),
}
UNSAFE_ZIPS = {
    **{what: zip_of(*((name, b"1") for name in names)) for what, names in UNSAFE_NAMES.items()},
    "symlink": zip_of(zip_link("link", "../sentinel")),
    "symlink, then through it": zip_of(zip_link("d", ".."), ("d/sentinel", b"gone")),
    "nul in a name": zip_of(("aXb", b"1")).replace(b"aXb", b"a\x00b"),
}
UNSAFE = {
    **{f"tar: {what}": (data, "tar") for what, data in UNSAFE_TARS.items()},
    **{f"tar.gz: {what}": (gzip.compress(data), "tar") for what, data in UNSAFE_TARS.items()},
    **{f"zip: {what}": (data, "zip") for what, data in UNSAFE_ZIPS.items()},
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_archive_is_refused_with_a_sentence(box: Path, name: str) -> None:
    with refused(codes.BUNDLE_UNSAFE) as caught:
        run(box, *UNSAFE[name])
    assert len(str(caught.value)) > 10
    assert "\x1b" not in str(caught.value)


def test_a_zip_with_a_name_twice_is_refused(box: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zip_of(("a", b"1"), ("a", b"2"))
    with refused(codes.BUNDLE_UNSAFE, match="twice"):
        run(box, data, "zip")


def test_an_encrypted_zip_is_told_so(box: Path) -> None:
    data = bytearray(zip_of(("a", b"1")))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with refused(codes.BUNDLE_BROKEN, match="encrypted"):
        run(box, bytes(data), "zip")


def test_a_zip_whose_sizes_lie_is_refused(box: Path) -> None:
    data = bytearray(zip_of(("a", b"1" * 1000), compression=zipfile.ZIP_DEFLATED))
    directory = data.index(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = struct.pack("<L", 10)
    with refused(codes.BUNDLE_UNSAFE, codes.BUNDLE_BROKEN):
        run(box, bytes(data), "zip")


def test_a_zip_bomb_is_refused_before_it_unfolds(box: Path) -> None:
    data = zip_of(("zeros", bytes(200 * 1024**2)), compression=zipfile.ZIP_DEFLATED)
    with refused(codes.BUNDLE_UNSAFE, match="100 times"):
        run(box, data, "zip")
    assert files(box) == {}


@pytest.mark.parametrize("pack", COMPRESSIONS)
def test_a_tar_bomb_is_refused_while_it_unfolds(box: Path, pack: Callable[[bytes], bytes]) -> None:
    with refused(codes.BUNDLE_UNSAFE, match="100 times"):
        run(box, pack(tar_of(("zeros", bytes(160 * 1024**2)))), "tar")


def test_more_bytes_than_we_unpack_are_refused(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MAX_UNPACKED_BYTES", 30 * 1024**2)
    half = os.urandom(16 * 1024**2)
    with refused(codes.BUNDLE_TOO_LARGE):
        run(box, tar_of(("a", half), ("b", half)), "tar")
    shutil.rmtree(box / "target")
    (box / "target").mkdir()
    with refused(codes.BUNDLE_TOO_LARGE):
        run(box, zip_of(("a", half), ("b", half)), "zip")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_more_members_than_we_unpack_are_refused(
    box: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "MAX_MEMBERS", 50)
    members = [(f"{number}", b"") for number in range(51)]
    with refused(codes.BUNDLE_TOO_LARGE, match="50 members"):
        run(box, zip_of(*members) if kind == "zip" else tar_of(*members), kind)
    deep = [("/".join(f"{number}-{depth}" for depth in range(30)), b"") for number in range(2)]
    with refused(codes.BUNDLE_TOO_LARGE, match="50 folders"):
        run(box, zip_of(*deep) if kind == "zip" else tar_of(*deep), kind)


def test_a_zip_whose_record_hides_a_larger_directory_is_refused(
    box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = zip_of(*[(f"{number}", b"") for number in range(60)])
    at = data.rindex(b"PK\x05\x06")
    directory_at = struct.unpack("<L", data[at + 16 : at + 20])[0]
    size = at - directory_at
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 60, 60, size, directory_at)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    lying = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 50, directory_at, 0)
    data = data[:at] + record + locator + lying
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == 60
    monkeypatch.setattr(codes, "MAX_MEMBERS", 50)
    with refused(codes.BUNDLE_TOO_LARGE, match="50 members"):
        run(box, data, "zip")


BROKEN = {
    "zip, cut": (zip_of(*GOOD)[:-40], "zip"),
    "zip, cut in the middle": (zip_of(*GOOD)[40:], "zip"),
    "zip, wrong checksum": (zip_of(("a", b"hello")).replace(b"hello", b"hullo"), "zip"),
    "no zip": (b"hello", "zip"),
    "empty": (b"", "zip"),
    "no tar": (b"hello " * 1000, "tar"),
    "empty tar": (b"", "tar"),
    "tar, cut in a member": (tar_of(*GOOD)[:2200], "tar"),
    "tar, cut in a header": (tar_of(*GOOD)[:1200], "tar"),
    **{
        f"{pack.id}, cut": (pack.values[0](tar_of(("a", os.urandom(50000))))[:-1000], "tar")
        for pack in COMPRESSIONS
    },
    "gz, flipped": (b"\x1f\x8b" + os.urandom(3000), "tar"),
    "bz2, flipped": (b"BZh9" + os.urandom(3000), "tar"),
    "xz, flipped": (b"\xfd7zXZ\x00" + os.urandom(3000), "tar"),
    "gz of no tar": (gzip.compress(b"hello " * 1000), "tar"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_archive_is_told_so(box: Path, name: str) -> None:
    data, kind = BROKEN[name]
    with refused(codes.BUNDLE_BROKEN):
        run(box, data, kind)


def test_an_xz_file_that_wants_gigabytes_of_memory_is_refused(box: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]
    data = lzma.compress(tar_of(*GOOD), filters=filters)
    with refused(codes.BUNDLE_TOO_LARGE, match="needs more than 96 MiB"):
        run(box, data, "tar")


MEASURED = """
import re, sys
from jobs.pod import unpack
def most(): return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
before = most()
unpack.unpack(*sys.argv[1:])
print(most() - before)
"""


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_unpacking_a_large_archive_takes_little_memory(box: Path, kind: str) -> None:
    noise = os.urandom(60 * 1024**2)
    data = zip_of(("noise", noise)) if kind == "zip" else tar_of(("noise", noise))
    (box / "archive").write_bytes(gzip.compress(data, 1) if kind == "tar.gz" else data)
    given = [str(box / "archive"), kind[:3], str(box / "target")]
    done = subprocess.run([sys.executable, "-c", MEASURED, *given], capture_output=True, check=True)
    assert int(done.stdout) * 1024 < 16 * 1024**2
    assert (box / "target/noise").read_bytes() == noise


names = st.text(
    alphabet=st.sampled_from(list("ab./\\\x00\x1b~ä\u202e")), min_size=1, max_size=12
) | st.sampled_from(["../x", "/x", "a/../../x", "..", ".", "a/./b", "~/x", "-rf", "CON"])
kinds = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(names, kinds, names, st.binary(max_size=20)), max_size=5), st.randoms())
def test_no_generated_tar_gets_out(members: list[Any], random: Any) -> None:
    infos = []
    for name, kind, link, data in members:
        size = len(data) if kind == tarfile.REGTYPE else 0
        infos.append(
            special(name.replace("\x00", "") or "a", kind, link.replace("\x00", ""), size=size)
        )
    data = bytearray(tar_of(*infos))
    if random.random() < 0.3:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    with tempfile.TemporaryDirectory(prefix="homeport-unpack-") as folder:
        root = Path(folder)
        (root / "target").mkdir()
        (root / "archive").write_bytes(data)
        with contextlib.suppress(PodError):
            unpack.unpack(str(root / "archive"), "tar", str(root / "target"))
        assert sorted(os.listdir(root)) == ["archive", "target"]
        for path in (root / "target").rglob("*"):
            assert not path.is_symlink()
            assert path.is_dir() or path.is_file()


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("code.zip", zip_of(*GOOD), "zip"),
        ("code.ZIP", b"whatever", "zip"),
        ("code.tar.gz", b"", "tar"),
        ("code.tgz", b"", "tar"),
        ("model.npz", zip_of(*GOOD), "plain"),
        ("train.py", b"print()", "plain"),
        ("table.csv.gz", gzip.compress(b"a,b", mtime=0), "plain"),
        ("bundle", zip_of(*GOOD), "zip"),
        ("bundle", tar_of(*GOOD), "tar"),
        ("bundle", gzip.compress(tar_of(*GOOD), mtime=0), "tar"),
        ("bundle", gzip.compress(b"print()", mtime=0), "plain"),
        ("bundle", b"\x1f\x8bnonsense", "plain"),
        ("bundle", b"#!/bin/sh\n", "plain"),
    ],
)
def test_names_decide_what_is_an_archive_and_content_where_names_do_not(
    tmp_path: Path, name: str, data: bytes, kind: str
) -> None:
    (tmp_path / "x").write_bytes(data)
    assert unpack.kind_of(str(tmp_path / "x"), name) == kind
