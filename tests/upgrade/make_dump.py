"""Makes `dump_0d1432e.sql` and `dump_0d1432e.json`: what an installation of 0d1432e has written.

Run inside a checkout of 0d1432e by that checkout's own Python, with the folder of the two files; what
was done stays in HOMEPORT_HOME, so that only the rows of the seed are made anew the next time:

    git archive 0d1432e | tar -x -C OLD && cd OLD && make .venv/.made-dev
    HOMEPORT_HOME=/absent/home .venv/bin/python /path/tests/upgrade/make_dump.py /path/tests/upgrade

First 0d1432e itself is at work for some minutes: its launcher, its embedded cluster, trainings, a
notebook and a TensorBoard of real people, until all of it is killed. Then come the rows of its
`tests/e2e/seed.py`, which has every state. The SQL text is the database; the JSON has when that was,
the archived files, and what each page and each REST resource showed of it.
"""

import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import django

PS = """
import os, time
if "{{job_name}}" == "ps":
    print("server up ps {{task_index}}", flush=True)
    time.sleep(3600)
for step in range(40):
    print("worker {{task_index}} step", step, flush=True)
os.makedirs(os.environ["ARTIFACTS_DIR"], exist_ok=True)
open(os.environ["ARTIFACTS_DIR"] + "/weights-{{task_index}}.txt", "w").write("old weights")
"""
TIME = re.compile(r"\d\d:\d\d:\d\d")
SMALL = {"cpu": "500m", "memory": "256Mi"}
BUNDLE = "print('from the bundle')\n"
HERE = Path(__file__).resolve().parent
OLD = Path.cwd()


def program(text: str) -> list[str]:
    return ["python", "-c", text]


def be_at_work(home: Path) -> None:
    """A day of real people, whose rows the old engine wrote; ends in the midst of it."""
    from tests.e2e.portal import Portal
    from tests.e2e.test_services import Service

    portal = Portal(home)
    try:
        portal.start()
        ada, lin, lee = (portal.sign_in(name) for name in ("ada", "lin", "lee"))
        for person in (ada, lin, lee):
            person.tenant()
        notebook = Service(ada, "notebook", name="real notebook")
        bare = Service(lin, "notebook", name="real without JupyterLab", image="python:3.11-slim")
        trained = ada.submit(
            name="real ps and workers",
            topology="tf-ps",
            command=program(PS),
            replicas={"worker": {"count": 2, **SMALL}, "ps": SMALL},
        )
        ada.wait(trained, "succeeded")
        (home / "train.py").write_text(BUNDLE)
        bundle = ada.upload(home / "train.py")
        one = {"worker": SMALL}
        for name, command, state in (
            ("real from a bundle", ["python", "train.py"], "succeeded"),
            (
                "real failure",
                program("print('no data', flush=True); raise SystemExit(3)"),
                "failed",
            ),
        ):
            source = {"bundle": bundle} if "bundle" in name else None
            job = ada.submit(name=name, command=command, source=source, replicas=one, retries=1)
            ada.wait(job, state)
        stopped = ada.submit(
            name="real stop",
            command=program(PS.partition("\nfor")[0] + "\ntime.sleep(3600)"),
            replicas=one,
        )
        ada.wait(stopped, "running")
        ada.call("POST", f"jobs/{stopped['id']}/stop/", json={"reason": "diverged"})
        ada.wait(stopped, "stopped", timeout_s=200)
        board = Service(ada, "tensorboard", name="real board", jobs=[trained["id"]])
        notebook.wait("running")
        board.wait("running")
        board.do("stop")
        board.wait("stopped", timeout_s=180)
        bare.wait("failed")
        root = portal.sign_in("root")
        for name, verb, words in (
            ("lee", "suspend", {"why": "the quarter's hours are spent"}),
            ("lin", "delete", {"why": "left the lab", "data": "keep"}),
        ):
            space = (lin if name == "lin" else lee).get("me/")["tenant"]
            body = words if verb == "suspend" else {**words, "confirm": space["namespace"]}
            answer = root.call("POST", f"tenants/{space['id']}/{verb}/", json=body)
            assert answer.ok, answer.text
        runs = ada.submit(
            name="real and running",
            command=program("import time; print('going', flush=True); time.sleep(3600)"),
            replicas={"worker": {"cpu": "6", "memory": "256Mi"}},
        )
        ada.wait(runs, "running")
        waits = ada.submit(
            name="real and queued",
            command=["true"],
            replicas={"worker": {"cpu": "6", "memory": "256Mi"}},
        )
        time.sleep(75)  # usage is written down each minute
        assert ada.get(f"jobs/{waits['id']}/")["state"] == "queued"
    finally:
        portal.kill_everything()


def step_aside() -> None:
    """The names of the real people and their team make room for those of the seed."""
    from tenants.models import Team, User

    for user in User.objects.all():
        user.username = f"real.{user.username}"
        user.save()
    Team.objects.filter(name="vision").update(name="real vision")


def addresses() -> list[tuple[str, str]]:
    """Who looks where: every page of the seed, and the lists and details of every row."""
    from django.apps import apps

    from tests.e2e.pages import PAGES

    rows = {
        name: apps.get_model(name)
        for name in (
            "jobs.Job",
            "jobs.Service",
            "tenants.Tenant",
            "tenants.Team",
            "tenants.User",
            "jobs.Artifact",
        )
    }
    # The link to join is good for as long as its signature says, which no row knows.
    found = [(who, at.format(**SEEDED)) for page, (who, at) in PAGES.items() if page != "join"]
    lists = (
        "jobs",
        "notebooks",
        "tensorboards",
        "nodes",
        "queue",
        "tenants",
        "users",
        "teams",
        "audit",
        "me",
    )
    for who in ("root", "ada", "lee", "real.ada"):
        found += [
            (who, f"/api/v1/{name}/")
            for name in lists
            if who == "root" or name not in ("users", "audit", "tenants")
        ]
        found += [
            (who, page)
            for page in (
                "/",
                "/trainings/",
                "/trainings/?page=2",
                "/notebooks/",
                "/tensorboards/",
                "/queue/",
                "/account/",
            )
        ]
    found += [("root", "/admin/audit/csv/"), ("lee", "/team/gpu-hours.csv")]
    for job in rows["jobs.Job"].objects.exclude(desired="delete"):
        if re.match(r"sweep .* seed [^15]", job.name):
            continue  # one like another
        owner = job.owner.username
        found += [("root", f"/trainings/{job.pk}/"), (owner, f"/trainings/{job.pk}/")]
        parts = ("", "events/", "artifacts/", "manifests/")
        found += [(owner, f"/api/v1/jobs/{job.pk}/{part}") for part in parts]
    for job in rows["jobs.Job"].objects.filter(archives__isnull=False).distinct():
        if job.is_final:
            found += [
                ("root", f"/api/v1/jobs/{job.pk}/logs/"),
                ("root", f"/api/v1/jobs/{job.pk}/logs/?download=1"),
                ("root", f"/trainings/{job.pk}/log/"),
            ]
    for artifact in rows["jobs.Artifact"].objects.filter(job__name__startswith="real"):
        found.append(("root", f"/api/v1/jobs/{artifact.job_id}/artifacts/{artifact.pk}/"))
    for service in rows["jobs.Service"].objects.exclude(desired="delete"):
        kind = f"{service.kind}s"
        found += [
            ("root", f"/{kind}/{service.pk}/"),
            ("root", f"/api/v1/{kind}/{service.pk}/"),
            ("root", f"/api/v1/{kind}/{service.pk}/events/"),
        ]
    for name, page, rest in (
        ("tenants.Tenant", "/admin/namespaces/", "/api/v1/tenants/"),
        ("tenants.Team", "/admin/teams/", "/api/v1/teams/"),
        ("tenants.User", "/admin/people/", "/api/v1/users/"),
    ):
        for pk in rows[name].objects.values_list("pk", flat=True):
            found += [("root", f"{page}{pk}/"), ("root", f"{rest}{pk}/")]
    return sorted(set(found))


def names() -> list[str]:
    """Texts of rows that a page may show."""
    from django.apps import apps

    columns = {
        "jobs.Job": ("id", "name", "image", "reason_text", "reason_next_step", "stop_reason"),
        "jobs.Replica": ("pod", "reason_text"),
        "jobs.JobEvent": ("message",),
        "jobs.Bundle": ("file_name",),
        "jobs.Artifact": ("path",),
        "jobs.Service": ("id", "name", "reason_text", "reason_next_step", "pod"),
        "jobs.ServiceEvent": ("message",),
        "jobs.Node": ("name",),
        "tenants.User": ("username", "first_name", "last_name", "email"),
        "tenants.Team": ("name",),
        "tenants.Tenant": ("namespace", "reason_text", "desired_why"),
        "tenants.TenantObject": ("name", "detail"),
        "tenants.ApiToken": ("name",),
        "tenants.Session": ("source_address",),
        "tenants.AuditEntry": ("verb", "object_name", "source_address"),
    }
    logged = {"old weights", "server up ps 0", "worker 1 step 39", "no data", "from the bundle"}
    texts = {
        " ".join(str(text).split())
        for model, wanted in columns.items()
        for row in apps.get_model(model).objects.values_list(*wanted)
        for text in row
    }
    return sorted(text for text in texts | logged if len(text) > 2 and not TIME.search(text))


SEEDED: dict[str, str] = {}


def seed() -> None:
    from tests.e2e.seed import seed

    SEEDED.update({name: str(getattr(row, "pk", row)) for name, row in seed().items()})


def main() -> None:
    target = Path(sys.argv[1]).resolve()
    home = Path(os.environ["HOMEPORT_HOME"])
    sys.path.insert(0, str(OLD))
    database, worked = home / "homeport.sqlite3", home / "worked.sqlite3"
    if not worked.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        home.parent.chmod(0o755)
        be_at_work(home)
        with sqlite3.connect(database) as source, sqlite3.connect(worked) as copy:
            source.backup(copy)
    for left in home.glob("homeport.sqlite3*"):
        left.unlink()
    shutil.copy(worked, database)
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    django.setup()
    step_aside()
    seed()
    made_at = datetime.now(UTC).isoformat()
    asked: dict[str, Any] = {
        "wanted": addresses(),
        "names": names(),
        "people": ["ada", "real.ada", "root"],
        "password": "a long demo password",
    }
    with sqlite3.connect(database) as connection:
        dumped = "\n".join(connection.iterdump()) + "\n"
    store = {
        str(path.relative_to(home / "store")): base64.b64encode(path.read_bytes()).decode()
        for path in sorted((home / "store").rglob("*"))
        if path.is_file()
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "looking.py")],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    (target / "dump_0d1432e.sql").write_text(dumped)
    record = {"made_at": made_at, "store": store, **asked, **json.loads(done.stdout)}
    (target / "dump_0d1432e.json").write_text(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).replace('},"', '},\n"') + "\n"
    )
    print(len(dumped), "characters of SQL,", len(asked["wanted"]), "addresses")


if __name__ == "__main__":
    main()
