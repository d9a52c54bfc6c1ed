"""A real S3 server keeps what the portal gives it, and its links allow what they say only."""

import hashlib
import os
import tempfile
import time

import pytest
import requests

from portal.storage.s3 import S3Store
from portal.storage.store import Link

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3_store: S3Store) -> S3Store:
    return s3_store


def put(store: S3Store, key: str, data: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        store.put_file(key, file)


def test_what_is_larger_than_a_part_of_an_upload_comes_back(store: S3Store) -> None:
    data = os.urandom(9 * 1024**2)
    put(store, "a/deep/one", data)
    assert b"".join(store.open("a/deep/one")) == data


def send(link: Link, data: bytes, **changes: str) -> int:
    headers = {**link.headers, **changes}
    return requests.put(link.url, data=data, headers=headers, timeout=20).status_code


def test_links_lead_to_the_endpoint_of_the_pods_and_take_what_was_announced(
    store: S3Store,
) -> None:
    data = b"a segment of a log\n" * 1000
    digest = hashlib.sha256(data).hexdigest()
    link = store.link_put("t/segment", len(data), sha256=digest)
    assert link.url.startswith("http://localhost:")
    assert send(link, data) == 200
    assert requests.get(store.link_get("t/segment").url, timeout=20).content == data


def test_links_refuse_other_lengths_bytes_keys_and_methods(store: S3Store) -> None:
    data = b"x" * 1000
    link = store.link_put("t/refused", len(data), sha256=hashlib.sha256(data).hexdigest())
    assert send(link, b"y" * 1000) in {400, 403}
    assert send(link, data * 2, **{"Content-Length": "2000"}) in {400, 403}
    elsewhere = Link(link.url.replace("t/refused", "t/elsewhere"), link.method, link.headers)
    assert send(elsewhere, data) == 403
    assert requests.get(link.url, timeout=20).status_code == 403
    assert store.find_size("t/refused") is None
    assert store.find_size("t/elsewhere") is None


def test_links_expire(store: S3Store) -> None:
    put(store, "t/old", b"x")
    link = store.link_get("t/old", ttl_s=1)
    assert requests.get(link.url, timeout=20).status_code == 200
    deadline = 10
    while requests.get(link.url, timeout=20).status_code == 200:
        deadline -= 1
        assert deadline, "the link still works"
        time.sleep(1)
    assert requests.get(link.url, timeout=20).status_code == 403
