"""The folder as object store: keeps what it is given, and links allow what they say only."""

import asyncio
import hashlib
import io
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.storage import get_store
from portal.storage.folder import FolderStore
from portal.storage.folder_app import FolderStoreApp
from portal.storage.s3 import S3Store
from portal.storage.store import (
    Link,
    ObjectMismatchError,
    ObjectMissingError,
    Store,
    StoreError,
    check_key,
)
from tests.portal.servers import serving


@pytest.fixture
def folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="homeport-store-"))
    yield root
    shutil.rmtree(root)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, folder: Path) -> Store:
    if request.param == "folder":
        return FolderStore(folder / "store", "http://portal.example:8000/")
    found: S3Store = request.getfixturevalue("s3_store")
    for prefix in ("t/", "t1/", "t2/"):
        found.delete_prefix(prefix)
    return found


def put(store: Store, key: str, data: bytes) -> None:
    store.put_file(key, io.BytesIO(data))


def test_what_is_put_comes_back_whole_and_in_parts(store: Store) -> None:
    data = bytes(range(256)) * 10_000
    put(store, "t/a", data)
    assert store.exists("t/a")
    assert store.find_size("t/a") == len(data)
    assert b"".join(store.open("t/a")) == data
    assert b"".join(store.open("t/a", 1000)) == data[1000:]
    assert b"".join(store.open("t/a", 1000, 1_500_000)) == data[1000:1_501_000]
    assert b"".join(store.open("t/a", len(data) - 1, 100)) == data[-1:]
    assert b"".join(store.open("t/a", len(data), 100)) == b""
    assert b"".join(store.open("t/a", 5, 0)) == b""


def test_an_object_can_be_replaced_and_an_empty_one_kept(store: Store) -> None:
    put(store, "t/a", b"one")
    put(store, "t/a", b"")
    assert store.find_size("t/a") == 0
    assert b"".join(store.open("t/a")) == b""


def test_what_is_not_there_is_told_and_deleting_it_is_harmless(store: Store) -> None:
    assert not store.exists("t/a")
    with pytest.raises(ObjectMissingError):
        store.open("t/a")
    store.delete("t/a")
    store.delete_prefix("t/")


def test_a_prefix_is_deleted_whole_and_nothing_beside_it(store: Store) -> None:
    for key in ("t1/jobs/a/x", "t1/jobs/a/y/z", "t1/jobs/ab", "t2/x"):
        put(store, key, b"x")
    store.delete_prefix("t1/jobs/a/")
    found = ["t1/jobs/a/x", "t1/jobs/a/y/z", "t1/jobs/ab", "t2/x"]
    assert [store.exists(key) for key in found] == [False, False, True, True]
    with pytest.raises(StoreError, match=r"key of the object store|name a prefix"):
        store.delete_prefix("t1/jobs/a")
    with pytest.raises(StoreError, match=r"key of the object store|name a prefix"):
        store.delete_prefix("/")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "a/..",
        ".",
        ".incoming/x",
        "a/.b",
        "a\\b",
        "a b",
        "a\nb",
        "a\x00",
        "ä",
        "x" * 301,
        "~root",
        "a/\n",
    ],
)
def test_keys_never_leave_the_store(store: Store, key: str) -> None:
    calls: list[Any] = [
        lambda: put(store, key, b"x"),
        lambda: store.open(key),
        lambda: store.find_size(key),
        lambda: store.delete(key),
        lambda: store.link_get(key),
        lambda: store.link_put(key, 1),
    ]
    for call in calls:
        with pytest.raises(StoreError, match=r"key of the object store|name a prefix"):
            call()


@given(st.text(alphabet="ab./\\\n\x00~-_%", max_size=12))
def test_no_text_that_passes_as_a_key_leads_out(text: str) -> None:
    try:
        check_key(text)
    except StoreError:
        return
    inside = Path("/root/of/store") / text
    assert inside.resolve().is_relative_to("/root/of/store")
    assert ".." not in text.split("/")


def test_an_interrupted_write_leaves_nothing_visible(folder: Path) -> None:
    store = FolderStore(folder, "http://portal")

    class Broken:
        def read(self, size: int = -1, /) -> bytes:
            raise OSError("the disk is gone")

    with pytest.raises(StoreError, match="gone"):
        store.put_file("t/a", Broken())
    assert not store.exists("t/a")
    assert list((folder / ".incoming").iterdir()) == []


def test_what_dead_uploads_left_is_removed_after_a_day(folder: Path) -> None:
    import os
    import time

    store = FolderStore(folder, "http://portal")
    old, new = store.incoming("t/old"), store.incoming("t/new")
    (path,) = [p for p in (folder / ".incoming").iterdir() if p == old.path]
    os.utime(path, (time.time() - 90_000,) * 2)
    store.remove_stale()
    assert list((folder / ".incoming").iterdir()) == [new.path]
    old.abort()
    new.abort()


# --- links of the folder store, over real HTTP ----------------------------------------------------


@pytest.fixture
async def door(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Any, int]]:
    made: list[FolderStore] = []
    monkeypatch.setattr("portal.storage.folder_app.get_store", lambda: made[0])

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"inner"})

    async with serving(FolderStoreApp(inner)) as port:
        made.append(FolderStore(folder / "store", f"http://127.0.0.1:{port}"))
        yield made[0], port


async def fetch(
    link: Link, data: Any = None, method: str | None = None, url: str | None = None
) -> tuple[int, bytes]:
    body = io.BytesIO(data) if isinstance(data, bytes) else data
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method or link.method, url or link.url, data=body, headers=link.headers
        ) as answer,
    ):
        return answer.status, await answer.read()


async def test_links_write_and_read_over_http(folder: Path, door: tuple[FolderStore, int]) -> None:
    store, _ = door
    data = b"\x00\xff" * 2_000_000
    digest = hashlib.sha256(data).hexdigest()
    status, _body = await fetch(store.link_put("t/a", len(data), sha256=digest), data)
    assert status == 200
    assert await fetch(store.link_get("t/a")) == (200, data)
    assert (await fetch(store.link_get("t/absent")))[0] == 404
    (folder / "store/t/round").symlink_to("round")  # cannot be opened, and not for want of it
    status, body = await fetch(store.link_get("t/round"))
    assert (status, str(folder).encode() in body) == (503, False)


async def emptied(room: Path) -> None:
    """Waits until no upload is under way."""
    async with asyncio.timeout(20):
        while list(room.iterdir()):
            await asyncio.sleep(0.01)


async def test_an_upload_of_other_size_or_bytes_is_refused_and_not_kept(
    door: tuple[FolderStore, int],
) -> None:
    store, _ = door
    digest = hashlib.sha256(b"hello").hexdigest()
    for data in (b"hell", b"hello!", b"", b"x" * 5_000_000):
        try:
            status, _body = await fetch(store.link_put("t/a", 5), data)
        except aiohttp.ClientError:
            status = 422  # hung up on while it was still sending
        assert status == 422
    assert (await fetch(store.link_put("t/a", 5, sha256=digest), b"hullo"))[0] == 422
    assert not store.exists("t/a")
    await emptied(store._root / ".incoming")  # whom we hung up on tidies up after us
    assert (await fetch(store.link_put("t/a", 5, sha256=digest), b"hello"))[0] == 200


async def test_an_upload_without_length_is_measured_as_it_comes(
    door: tuple[FolderStore, int],
) -> None:
    store, _ = door

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 1000

    assert (await fetch(store.link_put("t/a", 4000), pieces()))[0] == 200
    assert (await fetch(store.link_put("t/b", 3999), pieces()))[0] == 422


async def test_an_upload_that_is_cut_off_leaves_nothing(door: tuple[FolderStore, int]) -> None:
    store, port = door
    link = store.link_put("t/a", 1000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = link.url.split(str(port), 1)[1]
    writer.write(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf".encode())
    await writer.drain()
    room = store._root / ".incoming"
    async with asyncio.timeout(20):
        while not room.exists() or not list(room.iterdir()):
            await asyncio.sleep(0.01)
    writer.close()
    await emptied(room)
    assert not store.exists("t/a")
    del reader


async def test_links_allow_nothing_but_what_they_say(
    door: tuple[FolderStore, int], settings: Any
) -> None:
    store, _ = door
    put(store, "t/a", b"mine")
    put(store, "t/b", b"not mine")
    link = store.link_get("t/a")
    parts = urlsplit(link.url)
    changed = [
        link.url.replace("/t/a?", "/t/b?"),
        link.url.replace("/t/a?", "/t/%61?").replace("%61", "%2e%2e/b"),
        link.url.replace("expires=", "expires=9"),
        link.url.replace("size=", "size=1"),
        link.url[:-1] + ("0" if link.url[-1] != "0" else "1"),
        link.url.split("&signature")[0],
        f"{parts.scheme}://{parts.netloc}/internal/v1/store/",
        f"{parts.scheme}://{parts.netloc}/internal/v1/store/../../../etc/passwd",
    ]
    for url in changed:
        status, _body = await fetch(link, url=url)
        assert status in {299, 403}, url  # 299: not even a path of the store
    assert (await fetch(link, b"mine", method="PUT"))[0] == 403
    assert (await fetch(link, method="DELETE"))[0] == 404
    old = store.link_get("t/a", ttl_s=-1)
    status, body = await fetch(old)
    assert status == 403
    assert b"expired" in body
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another one"
    assert (await fetch(link))[0] == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert (await fetch(link))[0] == 403


def test_a_field_cannot_spill_into_the_next(folder: Path) -> None:
    store = FolderStore(folder, "http://portal")
    query = {
        k: v[0] for k, v in parse_qs(urlsplit(store.link_put("t/a", 5).url).query, True).items()
    }
    assert store.read_link("PUT", "t/a", query).size_bytes == 5
    spilled = {**query, "size": "5\n", "sha256": ""}
    with pytest.raises(StoreError, match="not valid"):
        store.read_link("PUT", "t/a", spilled)
    with pytest.raises(StoreError, match="not valid"):
        store.read_link("PUT\nt", "a", query)


async def test_other_paths_go_to_the_inner_application(door: tuple[FolderStore, int]) -> None:
    _, port = door
    assert await fetch(Link(f"http://127.0.0.1:{port}/internal/v1/jobs/", "POST")) == (
        299,
        b"inner",
    )


def test_the_settings_name_the_store(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(get_store(), FolderStore)
    assert get_store() is get_store()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    settings.S3_BUCKET = "bucket"
    settings.S3_ENDPOINT = "http://127.0.0.1:1"
    assert isinstance(get_store(), S3Store)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    store = S3Store(settings.S3_BUCKET, settings.S3_ENDPOINT, settings.S3_REGION)
    assert "Credential=another" in store.link_get("t/a").url


def test_a_mismatch_says_both_values(folder: Path) -> None:
    incoming = FolderStore(folder, "http://portal").incoming("t/a")
    incoming.write(b"abc")
    with pytest.raises(ObjectMismatchError, match="3 bytes came, announced were 4"):
        incoming.commit(size_bytes=4)
