"""What a pod tries that wants more of the portal than its own door, and what must come of it."""

import json
from typing import Any
from urllib.parse import urlsplit

from django.urls import get_resolver

from tests.e2e.portal import Portal, Rest
from tests.portal.routes.walk import Route, walk

WRONG_TRIES = 11  # one more than lock somebody out at one address
_VALUES = {"uuid": "0" * 8 + "-0000-4000-8000-" + "0" * 12, "slug": "worker", "int": "1"}

# Runs in a pod, with nothing but Python's own library.
_PROGRAM = """
import http.client, json, sys
address, given = sys.argv[1], json.loads(sys.argv[2])

def call(method, path, host, body=None, **headers):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    data = b"" if body is None else json.dumps(body).encode()
    length = {"Content-Length": str(len(data))} if method == "POST" else {}
    for name, value in {"Host": host, **length, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders(data or None)
    status = connection.getresponse().status
    connection.close()
    return status

tried, got = 0, []
for host in given["hosts"]:
    for path in given["paths"]:
        for method in ("GET", "POST"):
            tried += 1
            status = call(method, path, host)
            inside = path.startswith("/internal/")
            if status != 404 and not (inside and 400 <= status < 500):
                got.append([method, path, host, status])
    for path in ("/ws/live/", "/internal/"):
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Origin": "http://" + host}
        tried += 1
        status = call("GET", path, host, **upgrade)
        if status == 101:
            got.append(["websocket", path, host, status])
    for _ in range(given["wrong_tries"]):
        body = {"username": "ada", "password": "wrong"}
        header = {"Content-Type": "application/json"}
        status = call("POST", "/api/v1/auth/token/", host, body, **header)
        if status != 404:
            got.append(["password", "", host, status])
print("answer", json.dumps({"tried": tried, "got": got[:20], "all": len(got)}), flush=True)
"""


def paths() -> list[str]:
    """One address of every route."""

    def filled(route: Route) -> str:
        path = route.path.replace("^api/.*", "api/v1/no-such-thing/")
        for key in route.converters:
            for kind, value in _VALUES.items():
                path = path.replace(f"<{kind}:{key}>", value)
        assert "<" not in path, f"{route.path}: which value?"
        return f"/{path}"

    return [*map(filled, walk(get_resolver().url_patterns)), "/static/base.css", "//sign-in/"]


def try_everything(portal: Portal, ada: Rest, pod_portal_url: str) -> None:
    """A pod asks for everything in every name; then ada signs in from outside.

    Raises:
        AssertionError: a pod got something, or its tries at ada's password counted.
    """
    address = urlsplit(pod_portal_url).netloc
    hosts = [f"localhost:{portal.port}", f"127.0.0.1:{portal.port}", address, "evil.example", ""]
    given = {"hosts": hosts, "paths": paths(), "wrong_tries": WRONG_TRIES}
    job = ada.submit(
        name="wants more",
        command=["python", "-c", _PROGRAM, address, json.dumps(given)],
        replicas={"worker": {"cpu": "500m"}},
    )
    ada.wait(job, "succeeded", timeout_s=240)
    log = ada.text(f"jobs/{job['id']}/logs/?download=1")
    line = next(line for line in log.splitlines() if "answer {" in line)
    answer: dict[str, Any] = json.loads(line.partition("answer ")[2])
    assert answer["tried"] == len(hosts) * (2 * len(given["paths"]) + 2)
    assert answer["got"] == [], f"{answer['all']} in all"
    portal.sign_in("ada")


FLOOD_S, FLOOD_THREADS = 2, 24

# Runs in a pod: on each route of pods as many calls as it can, by the token that every program can read.
_FLOOD = """
import collections, http.client, json, os, sys, threading, time
from pathlib import Path
from urllib.parse import urlsplit
given = json.loads(sys.argv[1])
door = urlsplit(os.environ["HOMEPORT_URL"])
job = json.loads(Path("/etc/homeport/job.json").read_text())["id"]
token = Path("/run/homeport/token").read_text().strip()
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}

def call(method, path):
    connection = http.client.HTTPConnection(door.hostname, door.port, timeout=30)
    try:
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Retry-After")
    finally:
        connection.close()

for path in given["paths"]:
    method = "GET" if path.endswith("hosts/") else "POST"
    path = path.replace(given["id"], job)
    said, until, began = collections.Counter(), time.monotonic() + given["seconds"], time.monotonic()

    def work():
        while time.monotonic() < until:
            try:
                status, later = call(method, path)
                said[str(status) if status != 429 or later else "no Retry-After"] += 1
            except OSError as error:
                said[type(error).__name__] += 1

    threads = [threading.Thread(target=work) for _ in range(given["threads"])]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print("flood", json.dumps([path, time.monotonic() - began, said]), flush=True)
print("the last line", flush=True)
"""


def flood_every_route(
    portal: Portal, ada: Rest, lin: Rest
) -> dict[str, tuple[float, dict[str, int]]]:
    """One training of ada's floods, while lin has one run.

    Returns:
        Path -> seconds, and statuses of the calls.

    Raises:
        AssertionError: a page, the other training, or what the flooding one brings itself failed.
    """
    internal = [path for path in paths() if path.startswith("/internal/")]
    given = {
        "paths": internal,
        "id": _VALUES["uuid"],
        "seconds": FLOOD_S,
        "threads": FLOOD_THREADS,
    }
    flood = ada.submit(
        name="flood",
        command=["python", "-c", _FLOOD, json.dumps(given)],
        replicas={"worker": {"cpu": "500m"}},
    )
    ada.wait(flood, "running")
    other = lin.submit(
        name="beside",
        command=["python", "-c", "for n in range(1000): print('line', n)"],
        replicas={"worker": {"cpu": "100m", "memory": "128Mi"}},
    )
    lin.wait(other, "succeeded", timeout_s=120)
    assert lin.text(f"jobs/{other['id']}/logs/?download=1").count("line ") == 1000
    assert ada.get(f"jobs/{flood['id']}/")["state"] == "running"  # so it was beside
    for name in ("lin", "ada"):
        assert portal.session(name).get(f"{portal.url}/trainings/", timeout=10).ok
    ada.wait(flood, "succeeded", timeout_s=240)
    log = ada.text(f"jobs/{flood['id']}/logs/?download=1")
    assert "the last line" in log
    told = [
        json.loads(line.partition("flood ")[2]) for line in log.splitlines() if "flood [" in line
    ]
    assert len(told) == len(internal)
    return {path: (seconds, said) for path, seconds, said in told}
