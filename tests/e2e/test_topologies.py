"""Each topology of several machines with its framework: the examples as people submit them by REST."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from math import cos, sin
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.jupyter import Lab
from tests.e2e.portal import Portal, Rest, kubectl
from tests.e2e.proofs import (
    EACH,
    EXAMPLES,
    PULL_S,
    RUN_S,
    TENSORFLOW,
    check_that_all_were_apart,
    check_that_nothing_is_left,
    kill,
    need_torch,
    programs,
    run_to_the_end,
)
from tests.e2e.test_services import Service
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]


@dataclass(frozen=True)
class Proof:
    """A program of two workers; `budget_s` is from the submit to its success, on idle cores (row M15)."""

    topology: str
    image: str
    command: str
    budget_s: float
    gpus: int = 0  # of each of the two workers; torchrun starts a process for each
    addresses: str = "names"

    def __str__(self) -> str:
        return f"{self.image} {self.command}" + (f" {self.gpus} GPUs" if self.gpus else "")

    @property
    def script(self) -> Path:
        return EXAMPLES / next(word for word in self.command.split() if word.endswith(".py"))

    @property
    def body(self) -> dict[str, Any]:
        """What is submitted, but its name and source."""
        workers = {"worker": {**EACH, "count": 2, "gpu": self.gpus}}
        return {
            "topology": self.topology,
            "image": self.image,
            "command": self.command.split(),
            "addresses": self.addresses,
            "replicas": MPI if self.topology == "mpi" else workers,
        }


# The remote shell as somebody would call it who does not know the token, then something long.
INTRUDER = """
mkdir -p /tmp/x/run/homeport /tmp/x/homeport
ln -s /etc /tmp/x/etc
cp /run/homeport/private.json /tmp/x/run/homeport
echo wrong > /tmp/x/run/homeport/token
cp /homeport/mpi_launch /tmp/x/homeport
/tmp/x/homeport/mpi_launch $(head -n 1 /homeport/hosts.openmpi | cut -d " " -f 1) echo let in
echo it ended with $?
exec mpirun sleep 86399
"""
MPI = {"launcher": {**EACH, "cpu": "200m"}, "worker": {**EACH, "count": 2, "cpu": "300m"}}
PROOFS = (
    Proof("tf-multiworker", TENSORFLOW, "python multiworker.py --log_dir={{log_dir}}", 30),
    Proof("torch-ddp", "lab/torch:1.13-cpu", "python ddp.py", 10),
    Proof("torch-ddp", "lab/torch:1.13-cpu", "python -m torch.distributed.run ddp.py", 15),
    Proof("torch-ddp", "lab/torch:1.13-cpu", "python -m torch.distributed.run ddp.py", 15, gpus=2),
    Proof("jax", "lab/jax:0.10", "python jax_sum.py", 15),
    Proof("mpi", "lab/openmpi:5.0", "mpirun python mpi_sgd.py", 10),
    Proof("mpi", "lab/mpich:5.0", "mpirun python mpi_sgd.py", 10, addresses="ip"),
)


def trained_on(*shards: int, steps: int = 100) -> list[float]:
    """The weights that a single process comes to with the samples of these ranks."""
    numbers = [(100 * shard + n, 2 + shard) for shard in shards for n in range(100)]
    samples = [(cos(n), sin(n), slope * cos(n) - 3 * sin(n)) for n, slope in numbers]
    a = b = 0.0
    for _step in range(steps):
        errors = [(x, y, a * x + b * y - target) for x, y, target in samples]
        a, b = (
            a - 0.2 * sum(x * error for x, _y, error in errors) / len(samples),
            b - 0.2 * sum(y * error for _x, y, error in errors) / len(samples),
        )
    return [a, b]


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_all_ranks_come_to_what_one_process_would(
    portal: Portal, ada: Rest, root: Rest, proof: Proof
) -> None:
    if "torch" in proof.image:
        need_torch()
    ranks = range(2 * max(1, proof.gpus))
    if proof.gpus:
        quota = {"gpu": 2 * proof.gpus}
        tenant = ada.tenant()["id"]
        assert root.call("PATCH", f"tenants/{tenant}/", json={"quota": quota}).ok
        page, counted = portal.session("ada"), f"{portal.url}/tenant/part/quota/"
        four = r"GPU</b>\s*<span[^>]*>\d+ of 4 used"
        wait_for("it is counted", lambda: re.search(four, page.get(counted, timeout=30).text))
    done, log = run_to_the_end(ada, proof.script, **proof.body)
    ends = re.findall(r"rank (\d) weights (\S+) (\S+) loss (\S+)", log)
    assert sorted(int(rank) for rank, *_rest in ends) == [*ranks], log
    for rank, first, second, loss in ends:
        weights = [float(first), float(second)]
        assert weights == pytest.approx(trained_on(*ranks), abs=1e-4)
        assert weights != pytest.approx(trained_on(int(rank)), abs=1e-1)
        assert float(loss) < (0.2 if len(ranks) == 2 else 0.7)
    addresses = dict(re.findall(rf"rank (\d) of {len(ranks)} at (\S+)", log))
    assert sorted(addresses) == [str(rank) for rank in ranks]
    check_that_all_were_apart(done, set(addresses.values()), of=("worker",))
    check_that_nothing_is_left(portal, ada, done, 120)


def sleepers() -> int:
    """Processes of this machine that `INTRUDER` has started in the end."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            found += path.read_bytes() == b"sleep\x0086399\x00"
    return found


@pytest.mark.parametrize("image", ["lab/openmpi:5.0", "lab/mpich:5.0"])
def test_mpi_refuses_a_wrong_token_and_a_stop_leaves_no_process(ada: Rest, image: str) -> None:
    ring = ada.submit(
        name="ring",
        topology="mpi",
        image=image,
        command=["mpirun", "python", "-m", "mpi4py.bench", "ringtest"],
        replicas=MPI,
    )
    ada.wait(ring, "running", "succeeded", timeout_s=PULL_S)
    ada.wait(ring, "succeeded", timeout_s=RUN_S)
    ended = ada.text(f"jobs/{ring['id']}/logs/?download=1")
    assert re.search(r"time for 1 loops = \S+ seconds \(2 processes, 1 bytes\)", ended), ended
    assert "ERROR" not in ended  # such as UCX prints where there is no folder of networks
    words = ["sh", "-c", INTRUDER]
    job = ada.submit(name="long", topology="mpi", image=image, command=words, replicas=MPI)
    ada.wait(job, "running", timeout_s=PULL_S)
    wait_for("both workers sleep", lambda: sleepers() == 2, timeout_s=60)
    log = ada.text(f"jobs/{job['id']}/logs/?tail=100")
    assert "refused, for the token is wrong" in log
    assert "it ended with 255" in log
    assert "let in" not in log
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    wait_for("nothing is left", lambda: sleepers() == 0, timeout_s=60)
    ada.wait(job, "stopped")


def test_a_chief_goes_on_without_a_worker_and_the_last_checkpoint_is_evaluated(
    portal: Portal, ada: Rest
) -> None:
    one = {**EACH, "cpu": "300m"}
    job = ada.submit(
        name="chief",
        topology="tf-ps",
        image=TENSORFLOW,
        command=["python", "parameter_server.py", "--log_dir={{log_dir}}", "--steps=3000"],
        source={"bundle": ada.upload(EXAMPLES / "parameter_server.py")},
        replicas={"chief": one, "worker": {**one, "count": 2}, "ps": one, "evaluator": one},
        clean_policy="all",
    )

    def log() -> str:
        return ada.text(f"jobs/{job['id']}/logs/?tail=5000")

    ada.wait(job, "running", timeout_s=PULL_S)
    wait_for("it trains", lambda: re.search(r"step 100 loss", log()), timeout_s=RUN_S)
    seen = ada.get(f"jobs/{job['id']}/")["replicas"]
    [lost] = [one["pod"] for one in seen if (one["role"], one["index"]) == ("worker", 1)]
    kubectl(portal, "-n", ada.tenant()["namespace"], "delete", "pod", lost, "--grace-period=1")
    done = ada.wait(job, "succeeded", timeout_s=RUN_S)
    assert done["attempt"] == 1
    # What a lost worker had done already is done once more by another: it may be a step more.
    whole = re.compile(r"\| step 30\d\d loss (\S+)")
    end = wait_for("its log is whole", lambda: whole.search(log()), timeout_s=RUN_S)
    assert float(end[1]) < 0.001
    evaluated = re.compile(r"evaluated step 30\d\d loss 0\.000")
    wait_for("it is evaluated", lambda: evaluated.search(log()), timeout_s=120)
    addresses = dict(re.findall(r"((?:chief|worker|ps|evaluator)-\d) at (\S+)", log()))
    check_that_all_were_apart(ada.get(f"jobs/{job['id']}/"), set(addresses.values()))
    check_that_nothing_is_left(portal, ada, job, 240)


def test_a_worker_with_a_sparse_spec_is_started_again_while_the_other_trains_on(
    portal: Portal, ada: Rest
) -> None:
    job = ada.submit(
        name="sparse",
        topology="tf-ps",
        image=TENSORFLOW,
        command=[
            "python",
            "ps_sparse.py",
            "--log_dir={{log_dir}}",
            "--steps=3000",
            "--step_s=0.02",
        ],
        source={"bundle": ada.upload(EXAMPLES / "ps_sparse.py")},
        replicas={
            "worker": {**EACH, "cpu": "300m", "count": 2},
            "ps": {**EACH, "cpu": "200m", "count": 2},
        },
        sparse_spec=True,
        clean_policy="all",
    )

    def log() -> str:
        return ada.text(f"jobs/{job['id']}/logs/?tail=9000")

    def losses() -> list[float]:
        """Of worker 0, in order."""
        return [float(one) for one in re.findall(r"\| worker-0 step \d+ loss (\S+)", log())]

    def workers() -> list[Any]:
        found = ada.get(f"jobs/{job['id']}/")["replicas"]
        return [one for one in found if one["role"] == "worker"]

    wait_for("both train", lambda: losses() and "| worker-1 step " in log(), timeout_s=PULL_S)
    before, (survivor, lost) = losses()[-1], workers()
    kill(programs(job, "worker", 1))
    wait_for(
        "it is another pod", lambda: workers()[1]["pod"] not in {lost["pod"], ""}, timeout_s=60
    )
    assert ada.get(f"jobs/{job['id']}/")["state"] == "running"
    done = ada.wait(job, "succeeded", timeout_s=RUN_S)
    assert done["attempt"] == 1
    first, second = workers()
    same = ("pod", "started_at", "restarts")
    assert [first[name] for name in same] == [survivor[name] for name in same]
    assert (first["restarts"], second["restarts"]) == (0, 1)
    told = losses()
    assert told[-1] < before / 10
    assert told[-1] < 0.01
    assert "| worker-1 ended at loss 0.0" in log()
    known = dict(re.findall(r"\| ((?:worker|ps)-\d) at \S+ knows (\{.*\})", log()))
    where = {name: json.loads(text)["cluster"] for name, text in known.items()}
    servers = [where[f"ps-{n}"]["ps"][str(n)] for n in range(2)]
    assert [where[f"ps-{n}"] for n in range(2)] == [{"ps": {str(n): servers[n]}} for n in range(2)]
    for n in range(2):
        own = where[f"worker-{n}"]
        assert (own["ps"], [*own["worker"]]) == (servers, [str(n)])
    addresses = dict(re.findall(r"\| ((?:worker|ps)-\d) at (\S+) knows", log()))
    check_that_all_were_apart(ada.get(f"jobs/{job['id']}/"), set(addresses.values()))
    check_that_nothing_is_left(portal, ada, done, 120)


# Starts its words as soon as the names of the training do not resolve, and shows them.
WITHOUT_NAMES = (
    'name=$(uname -n); while getent hosts "${name%-*-*}"; do sleep 0.2; done; echo "$@"; exec "$@"'
)


def test_replicas_meet_by_address_without_names_and_begin_anew_when_one_moves(
    portal: Portal, ada: Rest
) -> None:
    script = EXAMPLES / "ps_v1.py"
    program = ["python", script.name, "--log_dir={{log_dir}}", "--steps=6000"]
    job = ada.submit(
        name="moved",
        topology="tf-ps",
        image=TENSORFLOW,
        command=["sh", "-c", WITHOUT_NAMES, "sh", *program],
        cluster_flags=True,
        addresses="ip",
        source={"bundle": ada.upload(script)},
        replicas={"worker": {**EACH, "count": 2}, "ps": EACH},
        clean_policy="all",
    )

    def delete(kind: str, attempt: int, *more: str) -> str:
        mark = f"homeport.dev/owner={job['id']},homeport.dev/attempt={attempt}"
        of_it = ("-n", ada.tenant()["namespace"], "delete", kind, "-l", ",".join((mark, *more)))
        return kubectl(portal, *of_it, "--grace-period=1").strip()

    def log(attempt: int) -> str:
        answer = ada.call("GET", f"jobs/{job['id']}/logs/?tail=5000&attempt={attempt}")
        return answer.text if answer.ok else ""

    def is_running(attempt: int) -> bool:
        found = ada.get(f"jobs/{job['id']}/")
        return (found["attempt"], found["state"]) == (attempt, "running")

    # Before it runs, a Service that is deleted may be created again.
    wait_for("it runs", lambda: is_running(1), timeout_s=PULL_S)
    assert delete("services", 1)
    wait_for("it trains", lambda: re.search(r"\| step \d+ loss", log(1)), timeout_s=RUN_S)
    assert delete("pods", 1, "homeport.dev/role=ps")
    wait_for("it runs again", lambda: is_running(2), timeout_s=RUN_S)
    assert delete("services", 2)
    done = ada.wait(job, "succeeded", timeout_s=RUN_S)
    first, second = done["attempts"]
    assert (first["reason_code"], second["cause"]) == ("address_changed", "address")
    assert done["retries"] == 0
    seen = [
        {*re.findall(r"--ps_hosts=(\S+) --worker_hosts=(\S+),(\S+) ", log(attempt))}
        for attempt in (1, 2)
    ]
    # Each replica of an attempt was told the same three addresses, and the next attempt others.
    [[before], [after]] = seen
    assert len({*before, *after}) == 6
    check_that_all_were_apart(done, set(after))
    check_that_nothing_is_left(portal, ada, done, 120)


def test_an_elastic_group_goes_on_while_a_lost_worker_is_replaced(
    portal: Portal, ada: Rest
) -> None:
    need_torch()
    command = "python -m torch.distributed.run ddp.py --steps=400 --step_s=0.1"
    job = ada.submit(
        name="elastic",
        topology="torch-ddp",
        image="lab/torch:1.13-cpu",
        command=command.split(),
        source={"bundle": ada.upload(EXAMPLES / "ddp.py")},
        replicas={"worker": {**EACH, "count": 2, "min": 1}},
        clean_policy="all",
    )

    def log() -> str:
        return ada.text(f"jobs/{job['id']}/logs/?tail=5000")

    def workers() -> list[Any]:
        return sorted(ada.get(f"jobs/{job['id']}/")["replicas"], key=lambda one: one["index"])

    wait_for("it trains", lambda: "rank 1 step 50 " in log(), timeout_s=PULL_S)
    survivor, lost = workers()
    namespace = ada.tenant()["namespace"]
    kubectl(portal, "-n", namespace, "delete", "pod", lost["pod"], "--grace-period=1")
    done = ada.wait(job, "succeeded", timeout_s=RUN_S)
    assert done["attempt"] == 1
    last, other = workers()
    same = ("pod", "started_at", "restarts")
    assert [last[name] for name in same] == [survivor[name] for name in same]
    assert other["pod"] != lost["pod"]
    groups = re.findall(r"worker-0 \| .*rank \d of (\d) at", log())
    assert len(groups) > 1
    assert groups[-1] == "2"
    assert max(map(int, re.findall(r"continues after step (\d+)", log()))) >= 50
    addresses = dict(re.findall(r"\| .*rank (\d) of 2 at (\S+)", log()))
    check_that_all_were_apart(done, set(addresses.values()))
    check_that_nothing_is_left(portal, ada, done, 120)


def test_tasks_of_a_sweep_run_two_at_a_time_and_the_one_that_fails_runs_again(
    portal: Portal, ada: Rest
) -> None:
    done, log = run_to_the_end(
        ada,
        EXAMPLES / "sweep.py",
        topology="array",
        image="python:3.11-slim",
        command=["python", "sweep.py", "--fail_once", "3"],
        replicas={"worker": {"count": 6, "cpu": "100m", "memory": "64Mi"}},
        parallelism=2,
        retries=1,
    )
    losses = dict(re.findall(r"task (\d) loss (\S+)", log))
    assert sorted(losses) == list("012345")
    assert float(losses["3"]) < 1e-6 < float(losses["0"])
    spans = [
        (task, float(began), float(ended))
        for task, began, ended in re.findall(r"task (\d) span (\S+) (\S+)", log)
    ]
    assert sorted(task for task, *_rest in spans) == list("0123345")
    busy = [sum(b <= began < e for _task, b, e in spans) for _task, began, _ended in spans]
    assert max(busy) == 2
    runs = {one["index"]: (one["state"], one["restarts"]) for one in done["replicas"]}
    assert runs == {n: ("succeeded", int(n == 3)) for n in range(6)}
    assert done["attempt"] == 1
    hosts = set(re.findall(r"task \d of 6 on (\S+):", log))
    assert len(hosts) == 6
    files = {one["path"] for one in ada.get(f"jobs/{done['id']}/artifacts/")["results"]}
    assert {f"artifacts/result-{n}.json" for n in range(6)} <= files
    check_that_nothing_is_left(portal, ada, done, 120)


SERVERS = {"worker": {**EACH, "cpu": "300m", "count": 2}, "ps": {**EACH, "cpu": "200m"}}


def test_a_master_drives_the_devices_of_all_servers(portal: Portal, ada: Rest) -> None:
    done, log = run_to_the_end(
        ada,
        EXAMPLES / "in_graph.py",
        topology="tf-ingraph",
        image=TENSORFLOW,
        command=["python", "in_graph.py"],
        replicas={"master": {**EACH, "cpu": "300m"}, **SERVERS},
    )
    devices = re.findall(r"device /job:(\w+/)replica:0/(task:\d)/device:CPU:0", log)
    assert {role + task for role, task in devices} == {
        "worker/task:0",
        "worker/task:1",
        "ps/task:0",
    }
    [(w, b)] = re.findall(r"^(?:.*\| )?w (\S+) b (\S+)$", log, re.MULTILINE)
    assert [float(w), float(b)] == pytest.approx([0.1, 0.3], abs=1e-3)
    servers = set(re.findall(r"server \S+ at (\S+)", log))
    check_that_all_were_apart(done, servers, of=("worker", "ps"))
    check_that_nothing_is_left(portal, ada, done, 120)


def test_a_notebook_drives_servers_without_a_master_in_two_attempts(
    portal: Portal, ada: Rest
) -> None:
    job = ada.submit(
        name="servers",
        topology="tf-ingraph",
        image=TENSORFLOW,
        replicas=SERVERS,
        retries=1,
        clean_policy="all",
    )
    assert job["deadline_s"] == 8 * 3600
    image = "quay.io/jupyter/tensorflow-notebook:2026-11-01"
    service = Service(ada, "notebook", name="drives", image=image)
    service.wait("running")
    inside = service.enter()
    cookie = "; ".join(f"{one.name}={one.value}" for one in inside.session.cookies)

    def files() -> list[str]:
        found = [one["name"] for one in inside.get("api/contents/").json()["content"]]
        return [name for name in found if re.fullmatch(r"master_client-servers-\w+\.ipynb", name)]

    [name] = wait_for("the notebook is there", files, timeout_s=PULL_S)
    cells = inside.get(f"api/contents/{name}").json()["content"]["cells"]
    folder = name.removeprefix("master_client-").removesuffix(".ipynb")
    targets = []
    for attempt in (1, 2):
        wait_for(
            "its servers run",
            lambda: ada.get(f"jobs/{job['id']}/")["attempt"] == attempt,  # noqa: B023
        )
        ada.wait(job, "running", timeout_s=RUN_S)

        def target() -> Any:
            found = inside.get(f"api/contents/log/jobs/{folder}/cluster.json").json()
            told = json.loads(found["content"])["target"]
            return told if told not in targets else ""

        targets.append(wait_for("the target is told", target, timeout_s=RUN_S))
        with Lab(inside.base, cookie).kernel() as kernel:
            said = "".join(kernel.run(cell["source"], timeout_s=RUN_S) for cell in cells)
        assert targets[-1] in said
        for device in ("worker/replica:0/task:0", "worker/replica:0/task:1", "ps/replica:0/task:0"):
            assert f"/job:{device}/device:CPU:0" in said
        assert "w 0.100 b 0.300" in said
        if attempt == 1:
            seen = ada.get(f"jobs/{job['id']}/")["replicas"]
            lost = next(one["pod"] for one in seen if one["role"] == "worker")
            kubectl(portal, "-n", ada.tenant()["namespace"], "delete", "pod", lost)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    check_that_nothing_is_left(portal, ada, ada.wait(job, "stopped"), 120)
    ada.call("DELETE", service.path)
