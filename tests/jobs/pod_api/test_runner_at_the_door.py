"""A real runner against the real pods' door: what is shipped is what people read later."""

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application
from django.db import OperationalError

from jobs.archive.artifacts import open_artifact
from jobs.archive.logs import job_log
from jobs.kinds.training.tokens import job_token
from jobs.models import Bundle, LogSegment, Replica, ReplicaArchive
from jobs.pod.errors import PortalError
from jobs.pod.portal_client import PortalClient
from jobs.pod_api import hosts
from portal.server.bodies import FormHandler
from portal.server.request_threads import RequestThreads
from portal.storage import get_store
from portal.storage.folder import FolderStore
from portal.storage.folder_app import FolderStoreApp
from tests.factories import make_job, make_tenant, role_request
from tests.jobs.pod.pods import Pod
from tests.jobs.pods_door import aim, real_pod
from tests.portal.servers import serving


@pytest.fixture
async def portal(
    transactional_db: None, settings: Any, store: FolderStore
) -> AsyncIterator[Callable[[], str]]:
    async with serving(FolderStoreApp(get_asgi_application())) as port:
        settings.POD_PORTAL_URL = f"http://127.0.0.1:{port}"
        yield lambda: settings.POD_PORTAL_URL


@pytest.fixture
def pod() -> Iterator[Pod]:
    with real_pod() as made:
        yield made


async def test_fetch_runner_and_rescue_work_with_the_real_door(
    portal: Callable[[], str], pod: Pod, told: list[Any]
) -> None:
    job = await sync_to_async(lambda: make_job(make_tenant("alice")))()
    aim(pod, job, portal())
    code = (
        b"import os, sys\n"
        b"open(os.environ['ARTIFACTS_DIR'] + '/model', 'wb').write(b'm' * 3_000_000)\n"
        b"for i in range(60000): sys.stdout.write('%05d ' % i + 'x' * 93 + '\\n')\n"
        b"sys.exit(3)\n"
    )
    bundle = Bundle(
        tenant=job.tenant,
        file_name="train.py",
        sha256=hashlib.sha256(code).hexdigest(),
        size_bytes=len(code),
    )
    await bundle.asave()
    job.spec["source"] = {"bundle": str(bundle.pk)}
    await job.asave()
    await asyncio.to_thread(get_store().put_file, bundle.storage_key, io.BytesIO(code))
    pod.config["source"] = job.spec["source"]
    pod.config["command"] = ["python3", "train.py"]
    pod.config["limits"]["segment_bytes"] = 1_000_000
    assert (await asyncio.to_thread(pod.program, "fetch"))[0] == 0, pod.message
    exit_code, output = await asyncio.to_thread(pod.run)
    assert exit_code == 3, output[-500:]
    assert pod.message["uploaded"] is True, pod.message

    def look() -> None:
        row = ReplicaArchive.objects.get()
        assert (row.is_complete, row.exit_code, row.exit_reason) == (True, 3, "exit_code")
        assert row.segments.count() >= 5
        text = b"".join(job_log(job, replica=("worker", 0), tail_lines=None))
        assert text == output
        tail = b"".join(job_log(job, replica=None, tail_lines=2))
        assert [line[:17] for line in tail.splitlines()] == [
            b"worker-0 | 59998 ",
            b"worker-0 | 59999 ",
        ]
        with open_artifact(job.artifacts.get(path="artifacts/model")) as file:
            assert file.read() == b"m" * 3_000_000

    await sync_to_async(look)()
    assert told[-4:] == ["wake", ("job", job.pk)] * 2


@pytest.mark.parametrize("lost", [(1, 2, 4), (5,), (1, 2, 3, 4, 5)])
async def test_what_a_restored_database_lacks_of_a_log_comes_again_at_its_end(
    portal: Callable[[], str], pod: Pod, lost: tuple[int, ...]
) -> None:
    job = await sync_to_async(lambda: make_job(make_tenant("alice")))()
    aim(pod, job, portal())
    pod.config["limits"]["segment_bytes"] = 100
    pod.python(
        "import os, time\n"
        "for number in range(5): os.write(1, b'%d' % number + b'x' * 98 + b'\\n')\n"
        "while not os.path.exists('restored'): time.sleep(0.02)\n"
        "print('the end')"
    )
    process = await asyncio.to_thread(pod.start)
    segments = LogSegment.objects.filter(archive__workload=job)

    async def are_all_there() -> bool:
        try:
            return await segments.acount() == 5
        except OperationalError:  # a database in memory does not wait for the door, which writes
            return False

    while not await are_all_there():
        assert process.poll() is None
        await asyncio.sleep(0.05)
    if len(lost) == 5:
        await ReplicaArchive.objects.all().adelete()
    await segments.filter(number__in=lost).adelete()
    (pod.root / "workspace/restored").touch()
    output, _ = await asyncio.to_thread(process.communicate, timeout=30)
    assert pod.message["uploaded"] is True, pod.message
    assert output.count(b"\n") == 6

    def look() -> None:
        assert ReplicaArchive.objects.get().is_complete
        assert b"".join(job_log(job, replica=("worker", 0), tail_lines=None)) == output

    await sync_to_async(look)()


async def test_addresses_are_waited_for_without_a_thread(
    transactional_db: None, store: FolderStore, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"worker": role_request(count=2), "ps": role_request()}
    make = sync_to_async(lambda: make_job(make_tenant("alice"), topology="tf-ps", replicas=counts))
    job = await make()
    pod.config |= {"addresses": "ip", "peer_timeout_s": 60}
    pod.config["hosts"] = {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]}
    pod.python("import os; print(os.environ['TF_CONFIG'])")

    async def see(role: str, index: int, ip: str) -> None:
        await Replica.objects.acreate(workload=job, role=role, index=index, address=ip)

    await see("worker", 0, "10.0.0.1")
    await see("ps", 0, "fd00::3")
    async with serving(RequestThreads(cast(Any, FormHandler()), 1, wait_s=2)) as port:
        aim(pod, job, f"http://127.0.0.1:{port}")
        client = PortalClient(pod.environ["HOMEPORT_URL"], job_token(job.pk))
        path = f"jobs/{job.pk}/hosts/?attempt="
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "WAIT_S", 0)
            found = await asyncio.to_thread(client.get, f"{path}1")
        assert found == {"worker": ["10.0.0.1", ""], "ps": ["fd00::3"]}
        running = asyncio.create_task(asyncio.to_thread(pod.run))
        others = asyncio.gather(*(asyncio.to_thread(client.get, f"{path}1") for _ in range(2)))
        async with asyncio.timeout(30):
            while hosts._places._value > hosts.MAX_WAITING - 3:
                await asyncio.sleep(0.01)
        with pytest.raises(PortalError, match="is not in this attempt"):
            await asyncio.wait_for(asyncio.to_thread(client.get, f"{path}2"), 1)
        # As many wait as there are pods.
        with pytest.raises(PortalError, match="has pods") as refused:
            await asyncio.wait_for(asyncio.to_thread(client.get, f"{path}1"), 1)
        assert refused.value.retry_after_s > 0
        assert not running.done()
        await see("worker", 1, "10.0.0.2")
        code, output = await running
        assert all(one["worker"] == ["10.0.0.1", "10.0.0.2"] for one in await others)
    assert code == 0
    told = next(line for line in output.splitlines() if line.startswith(b"{"))
    assert json.loads(told)["cluster"] == {
        "worker": ["10.0.0.1:2222", "10.0.0.2:2222"],
        "ps": ["[fd00::3]:2222"],
    }
