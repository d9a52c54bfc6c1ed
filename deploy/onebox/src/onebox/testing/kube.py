"""A small synchronous Kubernetes client: raw JSON, waits with deadlines."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import yaml

Json = dict[str, Any]
CORE = "/api/v1"
IMAGE = "python:3.11-slim"


class RefusedError(Exception):
    """The API answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Kube:
    """Speaks to the API server of a kubeconfig; one connection per request."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._host = urlsplit(cluster["server"]).netloc
        pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=pem)
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as file:
                for part in ("certificate", "key"):
                    file.write(base64.b64decode(user[f"client-{part}-data"]))
                file.flush()
                self._tls.load_cert_chain(file.name)

    def open(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> http.client.HTTPResponse:
        """Send a request; returns the response, which the caller reads."""
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=60)
        headers = {**self._headers, "Content-Type": kind}
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, headers)
        reply = connection.getresponse()
        if reply.status >= 400:
            text = reply.read().decode()
            connection.close()
            with contextlib.suppress(ValueError, KeyError):
                text = json.loads(text)["message"]
            raise RefusedError(reply.status, text)
        return reply

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Send a request and decode the answer."""
        with self.open(method, path, body, kind) as reply:
            return json.loads(reply.read())

    def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection."""
        return cast(Json, self.call("POST", path, body))

    def get(self, path: str) -> Json:
        """Read an object or a list."""
        return cast(Json, self.call("GET", path))

    def find(self, path: str) -> Json | None:
        """Read an object; None: there is none."""
        try:
            return self.get(path)
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    def items(self, path: str) -> list[Json]:
        """Read the objects of a collection."""
        return cast(list[Json], self.get(path)["items"])

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """Delete an object, what it owns later."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        options["propagationPolicy"] = "Background"
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self.call("DELETE", path, options)

    def patch(self, path: str, body: Json) -> Json:
        """Change an object by a merge patch."""
        return cast(Json, self.call("PATCH", path, body, "application/merge-patch+json"))

    def wait(
        self, path: str, until: Callable[[Json], bool], timeout_s: float = 60, what: str = ""
    ) -> Json:
        """Watch one object until it is as wanted; fails with its last state."""
        deadline_s = time.monotonic() + timeout_s
        obj = self.find(path)
        while obj is None or not until(obj):
            assert time.monotonic() < deadline_s, (
                f"{path} did not become {what or 'as wanted'} in {timeout_s} s: "
                f"{json.dumps((obj or {}).get('status'), indent=1)}"
            )
            time.sleep(0.05)
            obj = self.find(path)
        return obj

    def wait_gone(self, path: str, timeout_s: float = 60) -> None:
        """Wait until there is nothing at a path."""
        deadline_s = time.monotonic() + timeout_s
        while (obj := self.find(path)) is not None:
            assert time.monotonic() < deadline_s, f"{path} still exists: {obj['metadata']}"
            time.sleep(0.05)


class Space:
    """One namespace of a test."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube = kube
        self.name = name
        self.core = f"{CORE}/namespaces/{name}"
        kube.create(f"{CORE}/namespaces", {"metadata": {"name": name}})
        # Pods are admitted when their account exists, which a controller makes.
        kube.wait(self.path("serviceaccounts", "default"), lambda _account: True)

    def path(self, plural: str, name: str = "", group: str = "") -> str:
        """Return the address of a collection of this namespace, or of one object of it."""
        root = f"/apis/{group}/namespaces/{self.name}" if group else self.core
        return f"{root}/{plural}/{name}" if name else f"{root}/{plural}"

    def pod(self, name: str, *containers: Json, meta: Json | None = None, **spec: Any) -> Json:
        """Create a pod; containers default to one that sleeps."""
        body = {
            "metadata": {"name": name, **(meta or {})},
            "spec": {
                "terminationGracePeriodSeconds": 2,
                "containers": list(containers) or [sleeper()],
                **spec,
            },
        }
        return self.kube.create(self.path("pods"), body)

    def wait_pod(
        self, name: str, until: str | Callable[[Json], bool], timeout_s: float = 60
    ) -> Json:
        """Wait for a phase, for "Ready", or for a condition of one's own."""
        if until == "Ready":
            return self.kube.wait(self.path("pods", name), is_ready, timeout_s, "ready")
        if isinstance(until, str):
            wanted = until
            return self.kube.wait(
                self.path("pods", name),
                lambda pod: pod["status"].get("phase") == wanted,
                timeout_s,
                wanted,
            )
        return self.kube.wait(self.path("pods", name), until, timeout_s)

    def log(self, name: str, **query: Any) -> str:
        """Read a pod's log."""
        with self.open_log(name, **query) as reply:
            return reply.read().decode()

    def open_log(self, name: str, **query: Any) -> http.client.HTTPResponse:
        """Open a pod's log; the caller reads it."""
        path = f"{self.path('pods', name)}/log?{urlencode(query)}"
        return self.kube.open("GET", path)

    def first_line(self, name: str, **query: Any) -> str:
        """Follow a pod's log until its program has said something."""
        with self.open_log(name, follow="true", **query) as reply:
            return reply.readline().decode()

    def output(self, name: str, *containers: Json, **spec: Any) -> str:
        """Run a pod to its end and return its log."""
        self.pod(name, *containers, restartPolicy="Never", **spec)
        pod = self.wait_pod(name, lambda p: p["status"]["phase"] in ("Succeeded", "Failed"))
        text = self.log(name)
        assert pod["status"]["phase"] == "Succeeded", f"{text}\n{pod['status']}"
        return text

    def events(self, name: str) -> list[Json]:
        """Events about an object."""
        found = self.kube.items(f"{self.path('events')}?fieldSelector=involvedObject.name={name}")
        return sorted(found, key=lambda event: event.get("firstTimestamp") or "")

    def wait_event(self, name: str, reason: str, timeout_s: float = 60) -> Json:
        """Wait for an event about an object, by its reason."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = self.events(name)
            for event in found:
                if event["reason"] == reason:
                    return event
            seen = [(event["reason"], event["message"]) for event in found]
            assert time.monotonic() < deadline_s, f"no event {reason} of {name}: {seen}"
            time.sleep(0.05)


def sleeper(name: str = "main", seconds: int = 1000, **fields: Any) -> Json:
    """A container that sleeps."""
    return {"name": name, "image": IMAGE, "command": ["sleep", str(seconds)], **fields}


def shell(script: str, name: str = "main", **fields: Any) -> Json:
    """A container that runs a shell script."""
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **fields}


def python(script: str, name: str = "main", **fields: Any) -> Json:
    """A container that runs a Python program."""
    return {"name": name, "image": IMAGE, "command": ["python3", "-u", "-c", script], **fields}


def is_ready(pod: Json) -> bool:
    """Whether a pod is ready."""
    conditions = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def container(pod: Json, name: str = "main") -> Json:
    """The status of one container of a pod."""
    status = pod["status"]
    both = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next(c for c in both if c["name"] == name)


def names() -> Iterator[str]:
    """Fresh namespace names."""
    number = 0
    while True:
        number += 1
        yield f"t{number}"
