"""The health page: for admins only, from the report alone, with words for everything that can be wrong."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from jobs.fleet.check_results import keep_doctor
from jobs.fleet.checks import Check, dependencies, reconciler
from jobs.fleet.health import HealthPage
from jobs.models import ReconcilerLease
from jobs.rules.check_results import CheckResults, parse_results
from tenants.models import User
from tests.e2e.seed_fleet import report as seeded_report
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.jobs.fleet.rows import client_of, make_node, read
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def good_report(**changes: Any) -> dict[str, Any]:
    told = seeded_report(now())
    for watch in told["watches"]:
        watch["unreadable"] = 0
    told["cluster"] = {**told["cluster"], "storage_class": {"state": "yes", "detail": "nfs"}}
    return {**told, **changes}


def lease(**changes: Any) -> None:
    fields = {
        "holder": "here/1/2",
        "epoch": 7,
        "renewed_at": now(),
        "cluster_ok_at": now(),
        "cluster_error": "",
        "health": good_report(),
        **changes,
    }
    ReconcilerLease.objects.update_or_create(pk=1, defaults=fields)


def read_health() -> Markup:
    return read(make_user("root", role="admin"), "/admin/health/")


def troubles() -> list[str]:
    return [check.title for check in HealthPage().troubles]


def test_all_is_well() -> None:
    lease()
    make_node()
    page = read_health()
    assert "Healthy" in page.text
    assert "epoch 7, held by here/1/2" in page.text
    assert "all 14 open" in page.text
    assert "v1.33.2" in page.text
    assert "at most 118 ms" in page.text


def test_before_the_first_reconciler_it_says_how_to_start_one() -> None:
    page = read_health()
    assert "No reconciler has run yet." in page.text
    assert "manage.py serve" in page.text
    assert "No reconciler has reported yet." in page.text


@pytest.mark.parametrize("told", [{}, {"cluster": {}, "watches": [], "store": {}}])
def test_what_is_missing_in_the_report_is_not_known(told: dict[str, Any]) -> None:
    lease(health=told)
    make_node()
    assert "Not yet known" in read_health().text


def test_a_silent_reconciler_is_the_first_trouble() -> None:
    lease(renewed_at=now() - timedelta(minutes=5))
    make_node()
    assert troubles()[0] == "Lease"
    assert "The reconciler has not reported" in read_health().text


def test_each_thing_that_is_missing_in_the_cluster_is_named() -> None:
    no = {"state": "no", "detail": ""}
    cluster = {"class_name": "nfs", "storage_class": no, "pod_security": no, "metrics": no}
    lease(health=good_report(cluster={**cluster, "version": "v1.30.1", "is_old": True}))
    make_node("closed", is_schedulable=False)
    assert troubles() == ["Kubernetes", "Nodes", "StorageClass nfs", "Pod Security"]


@pytest.mark.parametrize(
    ("state", "tone", "is_told"),
    [("yes", "good", False), ("no", "bad", True), ("unknown", "rest", False)],
)
def test_namespaces_that_are_not_apart_are_told_to_everybody_concerned(
    state: str, tone: str, is_told: bool
) -> None:
    """A red check and a banner for admins, words at the namespace for whoever works in it."""
    network = {"state": state, "detail": "why", "checked_at": now().isoformat()}
    lease(health=good_report(network=network))
    tenant = make_tenant()
    check = next(check for check in HealthPage().cluster if check.title == "Network isolation")
    assert check.tone == tone
    assert ("not isolated" in check.text) == is_told
    banner, words = "Namespaces are not isolated", "Not isolated: on this cluster"
    assert (banner in read_health().text) == is_told
    root = User.objects.get(username="root")
    assert (words in read(root, f"/admin/namespaces/{tenant.pk}/").text) == is_told
    home = read(tenant.owner, "/")
    assert (words in home.text) == is_told
    assert banner not in home.text


@pytest.mark.parametrize(
    ("rights", "tone", "words"),
    [
        ({"missing": ["create pods", "get jobs.batch"]}, "bad", "lacks: create pods, get jobs"),
        ({"excess": list("abcdef")}, "warn", "more than it needs: a, b, c, d and 2 more"),
        ({"state": "yes"}, "good", "the permissions it needs, and no more"),
        ({"state": "no"}, "rest", "does not limit accounts"),
        ({"detail": "not now"}, "rest", "Not yet known"),
    ],
)
def test_what_the_account_may_do_is_told(rights: dict[str, Any], tone: str, words: str) -> None:
    lease(health=good_report(cluster={"rights": rights}))
    check = next(check for check in HealthPage().cluster if check.title == "Permissions")
    assert check.tone == tone
    assert words in check.text
    assert bool(check.next_step) == (tone in {"bad", "warn"})


def test_a_cluster_that_does_not_answer_is_told_in_its_own_words() -> None:
    lease(cluster_error="no connection to https://x")
    make_node()
    assert [(check.title, check.text) for check in HealthPage().troubles] == [
        ("API server", "no connection to https://x")
    ]


@pytest.mark.parametrize(
    ("change", "tone", "words"),
    [
        ({"problem": "no connection"}, "bad", "no connection"),
        ({"is_synced": False}, "warn", "not yet listed"),
        ({"heard_at": "2026-01-01T00:00:00+00:00"}, "warn", "no events for long"),
        ({"unreadable": 2}, "warn", "2 objects could not be read and are left out"),
    ],
)
def test_a_watch_that_fails_comes_first(change: dict[str, Any], tone: str, words: str) -> None:
    told = good_report()
    told["watches"][5] = {**told["watches"][5], **change}
    lease(health=told)
    make_node()
    page = HealthPage()
    first = page.watches[0]
    assert (first.kind, first.tone, first.text) == ("PersistentVolumeClaim", tone, words)
    assert [check.title for check in page.troubles] == ["Watches"]


def test_store_messages_and_disk_say_what_to_check() -> None:
    broken = {"state": "no", "text": "AccessDenied", "checked_at": None}
    told = {
        "store": {**broken, "kind": "folder", "name": "/srv", "free_percent": 3},
        "channel_layer": {**broken, "kind": "redis"},
    }
    bad = [check for check in dependencies.checks(told, "postgresql") if check.tone == "bad"]
    assert [check.title for check in bad] == ["Object store", "Disk", "Messages to browsers"]
    assert all(check.next_step for check in bad)


def test_a_disk_is_full_where_the_reserve_begins() -> None:
    told = {"store": {"state": "yes", "kind": "folder", "name": "/srv", "free_percent": 28}}
    told["store"]["is_short"] = True
    (bad,) = [check for check in dependencies.checks(told, "postgresql") if check.tone == "bad"]
    assert bad.title == "Disk"
    assert bad.text == "28 % free, less than DISK_RESERVE_BYTES"


def of_reconciler(**told: Any) -> dict[str, Check]:
    found = reconciler.checks(None, told, is_silent=True)
    return {check.title: check for check in found}


def test_slowness_failures_and_restarts_are_worth_a_look() -> None:
    found = of_reconciler(
        ticks={"lag_s": 4.2},
        jobs={"pending": 3, "under_way": 1, "resting": 2},
        tasks=[
            {"name": "reconciler", "state": "waiting", "error": "Boom: no", "restarts": 3},
            {"name": "pre-flight", "state": "running", "error": "Ouch", "restarts": 1},
            {"name": "health probes", "state": "running", "error": "", "restarts": 0},
        ],
        last_error={"at": "2026-11-20T10:00:00+00:00", "where": "jobs", "text": "it broke"},
    )
    assert found["Watch latency"].tone == "warn"
    assert "2 waiting after a failure" in found["Backlog"].text
    assert (found["reconciler"].tone, found["pre-flight"].tone) == ("bad", "warn")
    assert "health probes" not in found
    assert found["Last warning"].text == "it broke"


def test_the_length_of_the_queue_counts_services_too() -> None:
    tenant = make_tenant()
    make_job(tenant)
    make_service(tenant)
    make_job(tenant, desired="stop")
    lease()
    queue = next(check for check in HealthPage().reconciler if check.title == "Queue")
    assert queue.text == "2 queued"


def results(outcome: str, **changes: Any) -> CheckResults:
    line = {"name": "DNS", "outcome": outcome, "words": "no answer", "next_step": "mend it"}
    told = {"kind": "doctor", "at": now().isoformat(), "version": "0.1.0", "took_s": 1}
    return parse_results(json.dumps({**told, "checks": [line], **changes}).encode())


def test_before_the_first_preflight_the_page_says_how_to_run_one() -> None:
    lease()
    page = read_health()
    assert "manage.py preflight --kubeconfig ADMIN" in page.text
    assert "homeport doctor" in page.text


def test_the_last_results_are_told_with_age_and_next_step() -> None:
    """A doctor's from a laptop is shown as long as the cluster's is older."""
    preflight = results("failed", kind="preflight").as_json()
    lease(health=good_report(results={"preflight": preflight, "doctor": {"problem": "forbidden"}}))
    make_node()
    keep_doctor(results("passed", version="laptop"), by=make_user("ann", role="admin"))
    page = read_health()
    assert troubles() == ["Preflight"]
    for words in ("1 of 1 failed", "no answer", "mend it", "1 check passed", "version laptop"):
        assert words in page.text
    assert "The result in the cluster cannot be read: forbidden" in page.text
    at = (now() + timedelta(minutes=1)).isoformat()
    newer = results("warned", version="cluster", at=at).as_json()
    lease(health=good_report(results={"doctor": newer, "preflight": {"of": "another version"}}))
    assert "version cluster" in read(User.objects.get(username="root"), "/admin/health/").text


def test_a_doctors_result_comes_by_rest_and_what_is_none_is_refused_in_words() -> None:
    lease(health=good_report())
    client = client_of(make_user("ann", role="admin"))

    def post(**changes: Any) -> Any:
        told = results("failed", version="laptop").as_json() | changes
        return client.post("/api/v1/doctor/", json.dumps(told), "application/json")

    answer = post()
    assert answer.status_code == 204, answer.text
    assert "version laptop" in read_health().text
    for changes, words in (
        ({"kind": "preflight"}, "a result of preflight, not of doctor"),
        ({"checks": []}, "no result of preflight or doctor"),
        ({"more": "x" * 33_000}, "at most 32768"),
    ):
        answer = post(**changes)
        assert answer.status_code == 400
        assert words in answer.text


@pytest.mark.parametrize(
    ("told", "own_ahead_s", "tone", "words"),
    [
        ({}, None, "rest", "Not yet known"),
        ({"cluster_ahead_s": 1.4}, -4.9, "good", "less than 5 s apart"),
        ({"cluster_ahead_s": -90.2}, None, "bad", "the API server is 90 s behind the reconciler"),
        ({"database_ahead_s": 5400.0}, None, "bad", "the database is 5,400 s ahead of the reconc"),
        ({"cluster_ahead_s": 0.1}, 61.0, "bad", "the database is 61 s ahead of this web server"),
    ],
)
def test_clocks_that_are_apart_are_named(
    told: dict[str, Any], own_ahead_s: float | None, tone: str, words: str
) -> None:
    checks = dependencies.checks({"clocks": told}, "postgresql", own_ahead_s)
    (check,) = [check for check in checks if check.title == "Clocks"]
    assert (check.tone, words in check.text) == (tone, True), check.text
    assert ("NTP" in check.next_step) == (tone == "bad")


def test_a_key_that_is_not_known_any_more_is_told_while_it_matters() -> None:
    lease(health=good_report(keys={"uses": [], "strange": 2}))
    make_node()
    (check,) = HealthPage().troubles
    assert (check.title, check.text[:20]) == ("Secret key", "2 workloads that run")
    assert "HOMEPORT_SECRET_KEY_FALLBACKS" in check.next_step
    lease(health=good_report(keys={"uses": [], "strange": 0}))
    assert not troubles()


def test_namespaces_that_no_row_knows_are_told_by_whose_they_are(settings: Any) -> None:
    settings.POD_PORTAL_URL = "http://here"
    seen = [("", "u-old"), ("http://here", "u-lost"), ("http://there", "u-theirs")]
    unknown = [{"portal": portal, "count": 1, "names": [name]} for portal, name in seen]
    lease(health=good_report(unknown_namespaces=unknown))
    make_node()
    found = HealthPage().troubles
    assert {check.title for check in found} == {"Namespaces not known here"}
    assert [check.text for check in found] == [
        "1 that do not tell of which Homeport they are: u-old",
        "1 that this Homeport's database does not know: u-lost",
        "1 of another Homeport, http://there: u-theirs",
    ]
    assert ["adopt" in check.next_step for check in found] == [True, True, False]
