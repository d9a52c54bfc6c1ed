"""What an upload is told is what the pod will do with it; scripts that no shell can start are named."""

import gzip
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs import bundle_listing
from jobs.bundle_reader import MAX_NAMES
from jobs.models import Bundle
from jobs.pod import unpack
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes
from portal.errors import Refused
from tenants.models import Team
from tests.browsing import client_of, tenant_with_a_node
from tests.jobs.archives import special, tar_of, zip_of


def link(name: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info, b"train.py"


def with_entries(data: bytes, at: int, local_at: int | None, field: bytes) -> bytes:
    """A zip file of which each entry says another thing at these places of its headers."""
    for magic, place in ((b"PK\1\2", at), (b"PK\3\4", local_at)):
        pieces = data.split(magic)
        if place is not None:
            start, end = place - 4, place - 4 + len(field)
            pieces[1:] = [piece[:start] + field + piece[end:] for piece in pieces[1:]]
        data = magic.join(pieces)
    return data


MANY = [(f"{number}", b"") for number in range(10_001)]
ZEROS = ("zeros", bytes(160 * 1024**2))
DEFLATE64 = with_entries(zip_of(("large.bin", b"1")), 10, 8, b"\x09\0")
GIGABYTES = with_entries(zip_of(("a", b"1"), ("b", b"1"), ("c", b"1")), 24, None, b"\0\0\0\x40")


# What an archive holds -> its files once it is unpacked; None: no pod unpacks it.
NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "plain": (("train.py", "src/model.py"), ("train.py", "src/model.py")),
    "points": (("./train.py", "src/./model.py"), ("train.py", "src/model.py")),
    "of macOS": (("a.py", "__MACOSX/._a.py"), ("a.py",)),
    "parent": (("a.py", "../b.py"), None),
    "parent within": (("src/../../b.py",), None),
    "absolute": (("/etc/x",), None),
    "drive": (("C:/x.py",), None),
    "control": (("a\nb",), None),
    "twice": (("a.py", "./a.py"), None),
    "file and folder": (("a", "a/b"), None),
    "long": (("x" * 300,), None),
}
BACKSLASHES: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "of Windows": (("train.py", "src\\model.py", "src\\"), ("train.py", "src/model.py")),
    "mixed": (("src/a\\b.py",), ("src/a/b.py",)),
    "parent": (("src\\..\\..\\b.py",), None),
    "drive": (("C:\\x.py",), None),
    "share": (("\\\\host\\x.py",), None),
    "twice": (("src/a.py", "src\\a.py"), None),
    "file and folder": (("a", "a\\b"), None),
}
CASES = [
    *((f"zip {what}", "a.zip", zip_of(*((n, b"1") for n in names)), right)
      for what, (names, right) in {**NAMES, **{f"\\ {k}": v for k, v in BACKSLASHES.items()}}.items()
      if what != "twice"),
    *((f"tar {what}", "a.tar.gz", tar_of(*((n, b"1") for n in names)), right)
      for what, (names, right) in NAMES.items()),
    ("tar backslash", "a.tar", tar_of(("src\\a.py", b"1")), None),
    ("zip link", "a.zip", zip_of(("train.py", b"1"), link("b.py")), None),
    ("tar link", "a.tar", tar_of(special("b.py", tarfile.SYMTYPE, "train.py")), None),
    ("tar hard link", "a.tar", tar_of(("a", b"1"), special("b", tarfile.LNKTYPE, "a")), None),
    ("tar device", "a.tar", tar_of(special("null", tarfile.CHRTYPE)), None),
    ("zip Deflate64", "a.zip", DEFLATE64, None),
    ("zip of 3 GiB", "a.zip", GIGABYTES, None),
    ("zip 100 times", "a.zip", zip_of(ZEROS, compression=zipfile.ZIP_DEFLATED), None),
    ("tar 100 times", "a.tar.gz", gzip.compress(tar_of(ZEROS), 1), None),
    ("zip of many", "a.zip", zip_of(*MANY), None),
    ("tar of many", "a.tar", tar_of(*MANY), None),
    ("zip of the most", "a.zip", zip_of(*MANY[1:]), tuple(name for name, _ in MANY[1:])),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "data", "right"), CASES, ids=[case[0] for case in CASES])
def test_listing_and_pod_say_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    name: str,
    data: bytes,
    right: tuple[str, ...] | None,
) -> None:
    monkeypatch.setattr(bundle_listing, "TIMEOUT_S", 60)  # other tests have the same processors
    path, target = tmp_path / "upload", tmp_path / "target"
    path.write_bytes(data)
    target.mkdir()
    kind = unpack.kind_of(str(path), name)
    if right is None:
        with pytest.raises(PodError) as told:
            unpack.unpack(str(path), kind, str(target))
        with pytest.raises(Refused, match="cannot be unpacked") as refused:
            bundle_listing.list_bundle(path, name, len(data), person=1)
        assert str(told.value) in refused.value.text
        assert told.value.reason == refused.value.errors[0].code
        return
    assert unpack.unpack(str(path), kind, str(target)) == len(right)
    found = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    listing = bundle_listing.list_bundle(path, name, len(data), person=1)
    assert found == set(right)
    listed = [file for file, _size in listing.files]
    assert (listed, listing.total) == (list(right[:MAX_NAMES]), len(right))
    assert not listing.is_cut


WHOLE = zip_of(("data.bin", b"1" * 100))
DAMAGED = {
    "no zip": ("a.zip", b"nonsense" * 99),
    "no tar": ("a.tar.gz", b"nonsense" * 99),
    "zip without its end": ("a.zip", WHOLE[:-40]),
    "zip without its beginning": ("a.zip", WHOLE[40:]),
    "zip with two names of a file": ("a.zip", WHOLE.replace(b"data.bin", b"data.bun", 1)),
    "tar cut within a file": ("a.tar", tar_of(("a", b"1" * 5000))[:2000]),
    "tar cut within a header": ("a.tar", tar_of(("a", b"1"), ("b", b"1"))[:1300]),
    "tar.gz cut": ("a.tar.gz", gzip.compress(tar_of(("a", b"1" * 5000)))[:-20]),
    "tar.gz with a wrong check sum": (
        "a.tar.gz",
        gzip.compress(tar_of(("a", b"1")))[:-8] + bytes(8),
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_listing_and_pod_find_the_same_damage(tmp_path: Path, what: str) -> None:
    name, data = DAMAGED[what]
    path = tmp_path / "upload"
    path.write_bytes(data)
    (tmp_path / "target").mkdir()
    with pytest.raises(PodError) as told:
        unpack.unpack(str(path), unpack.kind_of(str(path), name), str(tmp_path / "target"))
    assert told.value.reason == codes.BUNDLE_BROKEN
    with pytest.raises(Refused, match=f"{name} cannot be read as an archive") as refused:
        bundle_listing.list_bundle(path, name, len(data), person=1)
    assert refused.value.errors[0].code == codes.BUNDLE_BROKEN


CRLF, LF = b"#!/bin/bash\r\necho 1\r\n", b"#!/bin/bash\necho 1\n"
SCRIPTS: dict[str, tuple[bytes, str]] = {
    "run.sh": (CRLF, "CRLF"),
    "run": (CRLF, "CRLF"),
    "plain.sh": (b"echo 1\r\n", "CRLF"),
    "env.py": (b"#!/usr/bin/env -S python3 -u\r\nprint(1)\r\n", "CRLF"),
    "mark.sh": (b"\xef\xbb\xbf" + LF, "BOM"),
    "both.sh": (b"\xef\xbb\xbf" + CRLF, "CRLF"),
    "good.sh": (LF, ""),
    "train.py": (b"print(1)\r\n", ""),  # which Python reads as well
    "data.csv": (b"a,b\r\n1,2\r\n", ""),
    "README": (b"read\r\n", ""),
    "empty.sh": (b"", ""),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_no_shell_can_start_is_named(tmp_path: Path, name: str) -> None:
    data, said = SCRIPTS[name]
    packed = {"a.zip": zip_of((f"p/{name}", data)), "a.tar.gz": tar_of((f"p/{name}", data))}
    for upload, content in {**packed, name: data}.items():
        path = tmp_path / "upload"
        path.write_bytes(content)
        notes = bundle_listing.list_bundle(path, upload, len(content), person=1).notes
        assert len(notes) == bool(said), upload
        assert not said or (said in notes[0] and name in notes[0])


def test_a_script_behind_many_files_is_named(tmp_path: Path) -> None:
    members = [*((f"src.d/{number}", LF) for number in range(2 * MAX_NAMES)), ("src.d/go", CRLF)]
    for upload, content in (("a.zip", zip_of(*members)), ("a.tar", tar_of(*members))):
        path = tmp_path / "upload"
        path.write_bytes(content)
        (note,) = bundle_listing.list_bundle(path, upload, len(content), person=1).notes
        assert "src.d/go has the line ends of Windows" in note


@pytest.mark.django_db
def test_form_and_rest_say_it(settings: Any, tmp_path: Path) -> None:
    settings.HOMEPORT_HOME = tmp_path
    alice = tenant_with_a_node("alice", team=Team.objects.create(name="vision"))
    client: Client = client_of(alice)
    for address, code in (("/bundles/", 200), ("/api/v1/bundles/", 201)):
        upload = SimpleUploadedFile("a.zip", zip_of(("run.sh", CRLF)))
        answer = client.post(address, {"file": upload})
        assert answer.status_code == code, answer.content
        told = answer.json()
        (note,) = told["notes"] if "notes" in told else told["listing"]["notes"]
        assert "run.sh has the line ends of Windows" in note
    count = Bundle.objects.count()
    for address in ("/bundles/", "/api/v1/bundles/"):
        for file in (zip_of(("..\\a.py", b"1")), zip_of(link("a.py"))):
            answer = client.post(address, {"file": SimpleUploadedFile("a.zip", file)})
            assert answer.status_code == 400
            assert "cannot be unpacked" in answer.json()["errors"][0]["text"]
        for name, data in DAMAGED.values():
            answer = client.post(address, {"file": SimpleUploadedFile(name, data)})
            assert answer.status_code == 400, (address, name)
            assert "cannot be read as an archive" in answer.json()["errors"][0]["text"]
        answer = client.post(address, {"file": SimpleUploadedFile("a.rar", b"Rar!")})
        assert "of a kind that cannot be unpacked" in answer.json()["errors"][0]["text"]
    assert Bundle.objects.count() == count
