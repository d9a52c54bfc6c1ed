"""The cluster network: names, ClusterIPs, NodePorts, between real pods."""

from __future__ import annotations

import time
import urllib.request

from onebox.testing.kube import Json, Kube, Space, python, shell

WEB = (
    "import http.server, socket\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    " def do_GET(self):\n"
    "  self.send_response(200); self.end_headers(); "
    "self.wfile.write(socket.gethostname().encode())\n"
    " def log_message(self, *a): pass\n"
    "http.server.ThreadingHTTPServer(('', 8080), H).serve_forever()"
)
GET = "import sys, urllib.request as u\nprint(u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=5).read().decode())"


GET_ALL = (
    "import sys, urllib.request as u\n"
    "for url in sys.argv[1:]:\n"
    " try: print(u.build_opener(u.ProxyHandler({})).open(url, timeout=5).read().decode())\n"
    " except OSError: print('nothing')"
)


def web(space: Space, name: str, **spec: object) -> None:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    space.pod(name, python(WEB, readinessProbe=probe), meta={"labels": {"app": "web"}}, **spec)


def service(space: Space, name: str, **spec: object) -> Json:
    body = {
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}], **spec},
    }
    return space.kube.create(space.path("services"), body)


def fetch(space: Space, name: str, url: str) -> str:
    command = {"name": "main", "image": "python:3.11-slim", "command": ["python3", "-c", GET, url]}
    return space.output(name, command).strip()


def test_peers_find_each_other_by_hostname_and_subdomain(space: Space):
    service(
        space,
        "team",
        clusterIP="None",
        publishNotReadyAddresses=True,
        ports=[{"port": 8080}],
    )
    web(space, "one", hostname="worker-0", subdomain="team")
    space.wait_pod("one", "Ready")
    assert fetch(space, "short", "http://worker-0.team:8080/") == "worker-0"
    full = f"http://worker-0.team.{space.name}.svc.cluster.local:8080/"
    assert fetch(space, "full", full) == "worker-0"
    script = "import socket\nprint(socket.getfqdn(), socket.gethostname())"
    text = space.output("own", python(script), hostname="worker-1", subdomain="team")
    assert text.split()[1] == "worker-1"


def test_a_missing_name_is_answered_at_once(space: Space):
    script = (
        "import socket, time\nt = time.time()\n"
        "try: socket.getaddrinfo('no-such.peer', 80)\n"
        "except socket.gaierror as e: print(e.args[0] == socket.EAI_NONAME, time.time() - t < 2)"
    )
    assert space.output("p", python(script)) == "True True\n"


def test_a_cluster_ip_leads_to_the_ready_pods(space: Space):
    created = service(space, "front")
    web(space, "one")
    web(space, "two")
    space.wait_pod("one", "Ready")
    space.wait_pod("two", "Ready")
    # The proxy may hear of the endpoints a little after us.
    ask = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://front/\").read().decode())'"
    script = (
        f"until {ask} > /dev/null 2>&1; do sleep 0.1; done; "
        f"for i in 1 2 3 4 5 6 7 8; do {ask}; done | sort | uniq -c"
    )
    text = space.output("client", shell(script))
    assert {line.split()[1] for line in text.splitlines()} == {"one", "two"}
    address = created["spec"]["clusterIP"]
    assert fetch(space, "by-address", f"http://{address}/") in ("one", "two")
    variables = space.output("links", shell("echo $FRONT_SERVICE_HOST $FRONT_SERVICE_PORT"))
    assert variables.split() == [address, "80"]


def test_namespaces_are_apart_or_the_node_says_that_they_are_not(kube: Kube, space: Space):
    conditions = [c for n in kube.items("/api/v1/nodes") for c in n["status"]["conditions"]]
    [said] = [c for c in conditions if c["type"] == "homeport.dev/Isolation"]
    created = service(space, "front")
    web(space, "one")
    ip = space.wait_pod("one", "Ready")["status"]["podIP"]
    urls = [f"http://{ip}:8080/", f"http://{created['spec']['clusterIP']}/"]
    # The proxy may hear of the endpoints a little after us.
    until = f"until python3 -c '{GET}' {urls[1]} > /dev/null 2>&1; do sleep 0.1; done"
    space.output("waits", shell(until))
    urls.append(f"http://front.{space.name}/")
    other = Space(kube, f"{space.name}-other")
    ask = {
        "name": "main",
        "image": "python:3.11-slim",
        "command": ["python3", "-c", GET_ALL, *urls],
    }
    assert space.output("own", ask).split() == ["one"] * 3
    is_plain = said["reason"] == "PlainProcesses"
    assert ("not isolated from each other" in said["message"]) == is_plain
    assert other.output("other", ask).split() == ["one" if is_plain else "nothing"] * 3
    kube.delete(f"/api/v1/namespaces/{other.name}")


def test_a_node_port_leads_in_from_the_host(space: Space):
    created = service(space, "open", type="NodePort")
    port = created["spec"]["ports"][0]["nodePort"]
    web(space, "one")
    space.wait_pod("one", "Ready")
    deadline_s = time.monotonic() + 5
    while (answer := get(f"http://127.0.0.1:{port}/")) != "one":
        # Readiness reaches the proxy a moment after it reaches the pod's status.
        assert time.monotonic() < deadline_s, answer


def get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as reply:
            return reply.read().decode()
    except OSError as error:
        return str(error)
