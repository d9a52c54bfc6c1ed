"""Every address of HTTP, tried by everybody, on own, others' and absent things, by every method.

What is expected comes from `table.py`. A route that is not there fails until it has a line.
"""

import socket

import pytest
from django.http import HttpResponseBase
from django.test import Client
from django.utils.timezone import now

from jobs.kinds.interactive.tokens import portal_token, usage_token
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.tokens import job_token
from jobs.models import ReconcilerLease, Workload
from tests.portal.routes.scene import HOST, NOT_PEOPLE, PEOPLE, Scene, Writes, undone
from tests.portal.routes.table import BY_SETTING, METHODS, OWNER, SOMEBODY, TABLE, Door, Rule
from tests.portal.routes.walk import Route, routes

# Its transaction is a savepoint inside that of the scene (conftest.py).
pytestmark = pytest.mark.django_db
ROUTES = {route.key: route for route in routes()}
SAFE = {"GET", "HEAD", "OPTIONS"}


def those_of(door: Door) -> list[str]:
    return sorted(key for key in ROUTES if key in TABLE and TABLE[key].door is door)


def is_rest(route: Route) -> bool:
    return route.path.startswith(("api/", "^api/"))


def kind_of(answer: HttpResponseBase) -> str:
    """`401`, `403`, `404`, `405`, `sign-in` (a redirect to it), or `answer`."""
    status = answer.status_code
    answer.close()  # a download gives its place back; one person asks for many here
    if status in {401, 403, 404, 405}:
        return str(status)
    if status == 302 and answer["Location"].startswith("/sign-in/?"):
        return "sign-in"
    # What is wrong then is the body or the moment: the caller was let in.
    assert status in {200, 201, 204, 302, 400, 409, 410, 415}, status
    return "answer"


def expected(route: Route, rule: Rule, method: str, relations: set[str], *, there: bool) -> str:
    """The kind of answer that is right."""
    right = rule.expected(method, relations, is_there=there)
    if right == "405" and is_rest(route):
        # DRF asks who it is before it looks whether there is such a method.
        if not rule.let_in & relations:
            return "403"
        return "answer" if method == "OPTIONS" else "405"
    return right


def test_every_call_is_answered_without_a_socket(scene: Scene) -> None:
    with socket.socket() as probe, pytest.raises(AssertionError, match="speak to the network"):
        probe.connect(("127.0.0.1", 9))


def test_every_route_has_a_line_in_the_table() -> None:
    for route in routes():
        assert route.key in TABLE, f"{route.path} ({route.name}) is new: who may call it?"
    gone = TABLE.keys() - ROUTES.keys() - BY_SETTING
    assert not gone, f"there is no such route any more: {sorted(gone)}"


@pytest.mark.parametrize("key", those_of(Door.PEOPLE))
def test_people_get_what_the_table_says(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    ways = ("session", "token") if is_rest(route) else ("session",)
    for caller in set(PEOPLE) - set(NOT_PEOPLE):
        for what, whose in scene.targets(caller, has_id=scene.has_id(route)).items():
            path = scene.address(route, rule, whose)
            if path is None:
                continue  # is in no team
            relations = scene.relations(caller, whose)
            for method in METHODS:
                right = expected(route, rule, method, relations, there=whose is not None)
                for by in ways:
                    with undone(), Writes() as writes:
                        answer = scene.send(caller, method, path, by=by, form=rule.form)
                    said = f"{method} {path} ({key}) by {by} of {caller}, {what}"
                    assert kind_of(answer) == right, f"{said}: {answer.status_code}"
                    if right != "answer" or method in SAFE:
                        assert not writes.found, f"{said} wrote: {writes.found}"


def of_other_kinds(scene: Scene, path: str) -> list[tuple[Workload, str]]:
    """One's own workloads of other kinds than the one in a path, and the path with their ids."""
    own = scene.things["alice"]
    rows = (own.job, *own.served.values())
    return [
        (other, path.replace(str(row.pk), str(other.pk)))
        for row in rows
        for other in rows
        if str(row.pk) in path and other is not row
    ]


@pytest.mark.parametrize("key", sorted({*those_of(Door.PEOPLE)} - {"lead-stop"}))
def test_a_workload_is_absent_where_another_kind_is_asked_for(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    path = scene.address(route, rule, "alice")
    assert path is not None
    for _other, there in of_other_kinds(scene, path):
        for method in METHODS:
            right = expected(route, rule, method, {SOMEBODY, OWNER}, there=False)
            with undone(), Writes() as writes:
                answer = scene.send("alice", method, there, form=rule.form)
            assert kind_of(answer) == right, f"{method} {there}: {answer.status_code}"
            assert not writes.found or right == "answer", f"{method} {there} wrote: {writes.found}"


@pytest.mark.parametrize("key", those_of(Door.PODS))
def test_a_pod_has_no_door_of_another_kind(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    path = scene.address(route, rule, "alice")
    assert path is not None
    for other, there in of_other_kinds(scene, path):
        if "services" in route.path and other.kind != TRAINING.key:
            continue  # gates of all kinds that have one knock here
        for make in (portal_token, job_token):
            bearer = f"Bearer {make(other.pk)}"
            with undone(), Writes() as writes:
                [method] = rule.methods
                answer = scene.send("nobody", method, there, HTTP_AUTHORIZATION=bearer)
            assert answer.status_code == 404, there
            assert not writes.found


@pytest.mark.parametrize("key", those_of(Door.PEOPLE))
def test_nobody_and_the_disabled_are_asked_to_sign_in(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    callers = [("nobody", "session"), ("dan", "session"), ("dan", "token")]
    if not is_rest(route):
        callers.append(("root", "token"))  # tokens are for REST
    for caller, by in callers:
        for whose in ("dan", "alice", None) if scene.has_id(route) else ("dan",):
            path = scene.address(route, rule, whose)
            assert path is not None
            for method in METHODS:
                with undone(), Writes() as writes:
                    answer = scene.send(caller, method, path, by=by, form=rule.form)
                right = "401" if is_rest(route) else "sign-in" if rule.of(method) else "405"
                said = f"{method} {path} ({key}) by {by} of {caller}"
                assert kind_of(answer) == right, f"{said}: {answer.status_code}"
                assert not writes.found, f"{said} wrote: {writes.found}"


@pytest.mark.parametrize("key", those_of(Door.PUBLIC))
def test_what_is_public_answers_everybody(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    path = scene.address(route, rule, None)
    assert path is not None
    well = {"renewed_at": now(), "cluster_ok_at": now()}  # or /status would say otherwise
    ReconcilerLease.objects.update_or_create(pk=1, defaults=well)
    for caller in ("nobody", *PEOPLE):
        for method in METHODS:
            with undone():
                kind = kind_of(scene.send(caller, method, path, form=rule.form))
            said = f"{method} {path} of {caller}: {kind}"
            if rule.of(method) is None:
                # REST describes itself on OPTIONS; what is no address at all is none by any method.
                assert kind in {"405", "404"} or (is_rest(route) and method == "OPTIONS"), said
            elif key != "api-token":  # its DELETE needs the token that it revokes
                assert kind == "answer", said


@pytest.mark.parametrize("key", those_of(Door.PODS))
def test_pods_act_for_their_own_job_only(scene: Scene, key: str) -> None:
    route, rule = ROUTES[key], TABLE[key]
    is_service = "services" in route.path
    make = usage_token if "/usage/" in route.path else portal_token
    make = make if is_service else job_token
    alice, olga = (scene.things[name] for name in ("alice", "olga"))
    own = make(alice.served["notebook"].pk if is_service else alice.job.pk)
    other = make(olga.served["notebook"].pk if is_service else olga.job.pk)
    for whose in ("alice", None):
        path = scene.address(route, rule, whose)
        assert path is not None
        for method in METHODS:
            for bearer in (own, other, own[:-1], ""):
                with undone(), Writes() as writes:
                    answer = scene.send(
                        "nobody", method, path, HTTP_AUTHORIZATION=f"Bearer {bearer}"
                    )
                is_own = bearer == own and whose is not None
                right = "405" if method not in rule.methods else "answer" if is_own else "404"
                # Nothing was uploaded for this job, so there is no link to it; and no attempt is named.
                if right == "answer" and route.path.endswith(("source/", "hosts/")):
                    right = "404"
                assert kind_of(answer) == right, f"{method} {path}: {answer.status_code}"
                if right != "answer":
                    assert not writes.found
            # No person is a pod, however they come.
            for caller in PEOPLE:
                for by in ("session", "token"):
                    with undone(), Writes() as writes:
                        answer = scene.send(caller, method, path, by=by)
                    assert kind_of(answer) in {"404", "405"}, f"{method} {path} of {caller}"
                    assert not writes.found


@pytest.mark.parametrize("key", [*those_of(Door.PEOPLE), *those_of(Door.PUBLIC)])
def test_a_session_changes_nothing_without_the_sites_own_form(scene: Scene, key: str) -> None:
    """A page elsewhere may send the cookie along, but never the CSRF token."""
    route, rule = ROUTES[key], TABLE[key]
    client = Client(enforce_csrf_checks=True, raise_request_exception=False, HTTP_HOST=HOST)
    path = scene.address(route, rule, "alice")
    assert path is not None
    for caller in ("alice", "root"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            if rule.of(method) is None:
                continue
            client.cookies.clear()
            client.cookies["homeport_session"] = scene.things[caller].cookie
            with undone(), Writes() as writes:
                answer = client.generic(
                    method,
                    path,
                    "{}",
                    content_type="application/json",
                    HTTP_ORIGIN="http://localhost:30123",
                )
            if key == "api-token":  # answers a name and a password, or the token itself; no cookie
                assert answer.status_code in {400, 401}
            else:
                assert answer.status_code == 403, f"{method} {path} of {caller}"
            assert not writes.found
