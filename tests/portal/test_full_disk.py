"""A disk that is nearly full, and full to its last byte, and a store that is read-only or away: told in
words, and well again by itself.

What was answered with success is kept, and what was refused has left nothing.
"""

import hashlib
import http.client
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import requests

from deploy.testcluster.ports import free_port
from portal.storage.folder import FolderStore
from tests.portal.attackers import Call
from tests.portal.postgres_server import PostgresServer, postgres_server
from tests.portal.server.test_bodies import MIB
from tests.portal.whole import Whole, whole_portal
from tests.tools.small_disk import mounts_a_small_disk, small_disk
from tests.tools.waiting import wait_for

RESERVE_BYTES = 8 * MIB
FORM = "multipart/form-data; boundary=homeport"


class Person:
    """What alice and her pods do; `kept` are the trainings whose submission was acknowledged."""

    def __init__(self, portal: Whole) -> None:
        self.portal = portal
        self.kept: set[str] = set()
        self._store = FolderStore(portal.home / "store", f"http://127.0.0.1:{portal.pod_port}")

    def submit(self) -> requests.Response:
        answer = self.portal.submit()
        if answer.status_code == 201:
            self.kept.add(answer.json()["id"])
        return answer

    def made(self) -> str:
        answer = self.submit()
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def trainings(self) -> set[str]:
        answer = self.portal.rest("GET", "jobs/?page_size=200")
        assert answer.status_code == 200, answer.text
        return {row["id"] for row in answer.json()["results"]}

    def upload(self, size_bytes: int) -> requests.Response:
        return self.portal.rest(
            "POST", "bundles/", files={"file": ("a.bin", b"%d " % size_bytes * 9)}
        )

    def upload_large(self) -> requests.Response:
        return self.portal.rest("POST", "bundles/", files={"file": ("b.bin", LARGE)})

    def archive(self, size_bytes: int = 1) -> requests.Response:
        link = self._store.link_put("alice/log", size_bytes)
        return requests.put(link.url, data=b"x" * size_bytes, timeout=30)

    def sign_in(self) -> requests.Response:
        person = {"username": "alice", "password": "a long password"}
        headers = {"Cookie": f"homeport_csrf={'c' * 32}", "X-CSRFToken": "c" * 32}
        address = f"{self.portal.url}/sign-in/"
        return requests.post(
            address, data=person, headers=headers, allow_redirects=False, timeout=30
        )

    def begun(self, door: str, size_bytes: int) -> int:
        """The status that is answered to the head alone of something large."""
        if door == "upload":
            port, method, path = self.portal.port, "POST", "/api/v1/bundles/"
        else:
            link = self._store.link_put("alice/large", size_bytes)
            port, method = self.portal.pod_port, "PUT"
            path = "/" + link.url.split("/", 3)[3]
        headers = {**self.portal.rest_headers, "Content-Type": FORM}
        with closing(http.client.HTTPConnection("localhost", port, timeout=30)) as connection:
            connection.request(method, path, headers={**headers, "Content-Length": str(size_bytes)})
            return connection.getresponse().status


LARGE = bytes(range(256)) * (2 * MIB // 256)


def refuses(answer: requests.Response) -> bool:
    """For want of room, in words."""
    assert answer.status_code == 507, (answer.request.url, answer.status_code, answer.text)
    assert "no room" in answer.text or "cannot keep it" in answer.text, answer.text
    return True


def shrink(database: Path) -> None:
    """Nothing is left in it, nor in its journal, that could be written without more of the disk."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE tenants_session SET last_seen_at = '2026-01-01 00:00:00'")
        connection.execute("UPDATE tenants_apitoken SET last_used_at = '2026-01-01 00:00:00'")
        connection.commit()
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


@mounts_a_small_disk
def test_a_full_disk(tmp_path: Path, settings: Any) -> None:
    with ExitStack() as until_the_end:
        disk = until_the_end.enter_context(small_disk(tmp_path / "disk", 60 * MIB))
        settings.DISK_RESERVE_BYTES = RESERVE_BYTES
        portal = until_the_end.enter_context(
            whole_portal(disk.folder / "home", DISK_RESERVE_BYTES=str(RESERVE_BYTES))
        )
        settings.SECRET_KEY = (portal.home / "secret_key").read_text().strip()
        alice = Person(portal)
        stopped, to_stop, deleted, to_delete, *_others = [alice.made() for _ in range(6)]
        assert alice.upload_large().status_code == 201
        assert alice.archive().status_code == 200

        disk.fill(leave_bytes=RESERVE_BYTES + 4 * MIB)
        assert alice.upload(1).status_code == 201
        # What is announced counts before its first byte, and what is not as it comes.
        assert alice.begun("upload", 6 * MIB) == alice.begun("archive", 6 * MIB) == 507
        chunked = {**portal.rest_headers, "Transfer-Encoding": "chunked"}
        call = Call(portal, "POST", "/api/v1/bundles/", chunked, 6 * MIB)
        call.send()
        assert call.answer()[0] == 507
        assert disk.free_bytes > RESERVE_BYTES + 3 * MIB

        disk.fill(leave_bytes=RESERVE_BYTES - MIB)
        makes_fuller: list[Callable[[], requests.Response]] = [
            alice.submit,
            alice.upload_large,
            alice.archive,
            lambda: alice.upload(2),
        ]
        assert all(refuses(ask()) for ask in makes_fuller)
        assert alice.sign_in().status_code == 302
        assert portal.rest("POST", f"jobs/{stopped}/stop/").status_code == 200
        assert portal.rest("DELETE", f"jobs/{deleted}/").status_code == 204

        shrink(portal.home / "homeport.sqlite3")
        disk.fill()
        makes_room: list[Callable[[], requests.Response]] = [
            alice.sign_in,
            lambda: portal.rest("POST", f"jobs/{to_stop}/stop/"),
            lambda: portal.rest("DELETE", f"jobs/{to_delete}/"),
        ]
        assert all(refuses(ask()) for ask in [*makes_fuller, *makes_room] * 2)
        ready = requests.get(f"{portal.url}/readyz", timeout=30)
        assert (ready.status_code, ready.json()["database"]) == (200, "ok")
        page = requests.get(f"{portal.url}/", headers=portal.page_headers, timeout=30)
        assert page.status_code == 200
        assert "The disk is nearly full" in page.text

        disk.make_room()
        assert alice.submit().status_code == alice.upload(2).status_code == 201
        assert [ask().status_code for ask in makes_room] == [302, 200, 204]
        assert alice.archive().status_code == 200
        assert alice.trainings() == alice.kept - {deleted, to_delete}
        wanted = "SELECT id FROM jobs_workload WHERE desired = 'stop'"
        with closing(sqlite3.connect(portal.home / "homeport.sqlite3")) as connection:
            found = {str(UUID(row[0])) for row in connection.execute(wanted)}
        assert found == {stopped, to_stop}
        kept = [path for path in (portal.home / "store").rglob("*") if path.is_file()]
        digests = {hashlib.sha256(path.read_bytes()).digest() for path in kept}
        contents = [LARGE, b"x", b"1 " * 9, b"2 " * 9]
        assert "Traceback" not in portal.log
        assert digests == {hashlib.sha256(content).digest() for content in contents}


def is_told(answer: requests.Response) -> bool:
    """That the object store is why, and that another try may do it."""
    assert answer.status_code == 503, (answer.request.url, answer.status_code, answer.text)
    assert answer.json()["errors"][0]["code"] == "store_unavailable", answer.text
    return "Retry-After" in answer.headers


@mounts_a_small_disk
def test_a_store_that_is_read_only(tmp_path: Path, settings: Any) -> None:
    with ExitStack() as until_the_end:
        home = tmp_path / "home"
        home.mkdir()
        disk = until_the_end.enter_context(small_disk(home / "store", 60 * MIB))
        portal = until_the_end.enter_context(whole_portal(home))
        settings.SECRET_KEY = (home / "secret_key").read_text().strip()
        alice = Person(portal)
        kept = alice.upload(1)
        assert kept.status_code == 201, kept.text
        bundle = f"bundles/{kept.json()['id']}/"

        disk.let_write(False)
        assert is_told(alice.upload(2))
        assert is_told(portal.rest("DELETE", bundle))
        put = alice.archive()
        assert (put.status_code, "Read-only file system" in put.text) == (507, True), put.text
        assert alice.submit().status_code == 201
        assert [row["id"] for row in portal.rest("GET", "bundles/").json()["results"]] == [
            kept.json()["id"]
        ]

        disk.let_write(True)
        assert alice.upload(2).status_code == 201
        assert alice.archive().status_code == 200
        assert portal.rest("DELETE", bundle).status_code == 204
        assert "Traceback" not in portal.log
        assert "the object store fails (waiting): [Errno 30] Read-only file system" in portal.log


def test_a_bucket_that_is_away(tmp_path: Path) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with whole_portal(tmp_path / "home", S3_BUCKET="homeport", S3_ENDPOINT=away, **keys) as portal:
        assert is_told(Person(portal).upload(1))
        assert "Traceback" not in portal.log
        assert portal.submit().status_code == 201


def fill_the_journal(database: PostgresServer) -> None:
    """PostgreSQL cannot go on without a journal, and ends."""
    try:
        for _ in range(100):
            database.one("SELECT pg_logical_emit_message(true, 'full', repeat('x', 1000000))")
    except psycopg.OperationalError:
        return
    raise AssertionError("there was room for all of it")


@mounts_a_small_disk
def test_a_full_disk_of_postgresql(tmp_path: Path) -> None:
    with ExitStack() as until_the_end:
        folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        disk = until_the_end.enter_context(small_disk(folder / "disk", 200 * MIB))
        database = until_the_end.enter_context(postgres_server(disk.folder))
        portal = until_the_end.enter_context(whole_portal(tmp_path, DATABASE_URL=database.url))
        alice = Person(portal)
        alice.made()
        # There is room in the journal, and none for another row.
        database.one("SELECT pg_switch_wal()")
        alice.made()
        disk.fill()
        answers = [alice.submit() for _ in range(30)]
        assert {answer.status_code for answer in answers} == {201, 507}
        assert refuses(answers[-1])
        assert requests.get(f"{portal.url}/readyz", timeout=30).status_code == 200
        assert alice.trainings() == alice.kept

        fill_the_journal(database)
        wait_for("it has ended", lambda: database.has_ended)
        refused = alice.submit()
        assert refused.status_code == 503, refused.text
        assert "nothing was changed" in refused.text
        assert requests.get(f"{portal.url}/readyz", timeout=30).status_code == 503
        disk.make_room()
        database.start()
        wait_for("it is well", lambda: alice.submit().status_code == 201)
        assert alice.trainings() == alice.kept
