"""Alerts fire when they should and only then; every query of alerts and dashboard has an answer on a real Homeport."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from deploy.testcluster.ports import free_port
from tests.jobs.engine.test_takeover import process as running
from tests.portal.programs import ROOT, environ_of, program
from tests.portal.test_metrics import fleet
from tests.portal.whole import TRAINING
from tests.tools.missing import is_missing
from tests.tools.servers import NoServerError, find_program

MONITORING = ROOT / "deploy" / "kubernetes" / "components" / "monitoring"
SPEC = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())["spec"]
RULES = {rule["alert"]: rule for group in SPEC["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())

# Alert, what is scraped each minute (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/),
# when it is looked at, and the labels that it then has besides its own; None: it does not fire.
CASES: list[tuple[str, dict[str, str], str, dict[str, str] | None]] = [
    (
        "HomeportReconcilerSilent",
        {"active": "1x10", "tick_count": "5+9x4 41x6"},
        "7m",
        {"instance": "a"},
    ),
    ("HomeportReconcilerSilent", {"active": "1x10", "tick_count": "5+9x10"}, "7m", None),
    ("HomeportReconcilerSilent", {"active": "0x10", "tick_count": "5x10"}, "7m", None),
    ("HomeportReconcilerSilent", {"active": "0x5 1x5", "tick_count": "5x5 8+9x5"}, "6m", None),
    ("HomeportNoReconciler", {"active": "1 0x5"}, "3m", {}),
    ("HomeportNoReconciler", {}, "3m", {}),
    ("HomeportNoReconciler", {"active": "0 0 1x5", "standby": "0x7"}, "5m", None),
    ("HomeportNoReconciler", {"active": "1 1 0 1x5"}, "5m", None),
    ("HomeportWatchLag", {"lag": "11x10"}, "6m", {}),
    ("HomeportWatchLag", {"lag": "11x4 9 11x4"}, "6m", None),
    ("HomeportWatchSilent", {"heard": "0+60x3 180x9"}, "9m", {"kind": "Pod"}),
    ("HomeportWatchSilent", {"heard": "0+60x12"}, "9m", None),
    ("HomeportRequestsFail", {"ok": "0+980x15", "failed": "0+20x15"}, "12m", {}),
    ("HomeportRequestsFail", {"ok": "0+995x15", "failed": "0+5x15"}, "12m", None),
    ("HomeportRequestsFail", {"ok": "7x15", "failed": "7x15"}, "12m", None),
    ("HomeportStoreErrors", {"store": "0 0 0 1x9"}, "5m", {"operation": "put_file"}),
    ("HomeportStoreErrors", {"store": "4x15"}, "14m", None),
    ("HomeportQueueOldWithFreeGpus", {"oldest": "86500x15", "free": "1x15"}, "12m", {}),
    ("HomeportQueueOldWithFreeGpus", {"oldest": "86500x15", "free": "0x15"}, "12m", None),
    ("HomeportQueueOldWithFreeGpus", {"oldest": "86300x15", "free": "9x15"}, "12m", None),
    ("HomeportNodePortsLow", {"ports": "100x15", "used_ports": "2668x15"}, "12m", {}),
    ("HomeportNodePortsLow", {"ports": "200x15", "used_ports": "2568x15"}, "12m", None),
    ("HomeportDatabaseLarge", {"size": "9000000000x15"}, "12m", {}),
    ("HomeportDatabaseLarge", {"size": "8000000000x15"}, "12m", None),
    ("HomeportBackupOld", {"backup": "0x1700"}, "27h2m", {}),
    ("HomeportBackupOld", {"backup": "0x1400 84000x300"}, "27h2m", None),
    ("HomeportBackupOld", {"backup": "0x1700"}, "26h30m", None),
]
SERIES = {
    "active": 'homeport_reconciler_active{instance="a"}',
    "standby": 'homeport_reconciler_active{instance="b"}',
    "tick_count": 'homeport_reconciler_tick_seconds_count{instance="a"}',
    "lag": "homeport_reconciler_lag_seconds",
    "heard": 'homeport_watch_heard_timestamp_seconds{kind="Pod"}',
    "ok": 'homeport_http_requests_total{route="job",method="GET",code="200"}',
    "failed": 'homeport_http_requests_total{route="job",method="GET",code="503"}',
    "store": 'homeport_store_errors_total{operation="put_file"}',
    "oldest": "homeport_queue_oldest_seconds",
    "free": 'homeport_gpus{state="free"}',
    "ports": 'homeport_nodeports{state="free"}',
    "used_ports": 'homeport_nodeports{state="used"}',
    "size": "homeport_database_bytes",
    "backup": "homeport_backup_timestamp_seconds",
}


def program_of_prometheus(name: str) -> str:
    try:
        return find_program(name, "prometheus")
    except NoServerError as error:
        is_missing(str(error))


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    promtool = program_of_prometheus("promtool")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    tests = []
    for alert, scraped, at, more in CASES:
        rule = RULES[alert]
        fired = {
            "exp_labels": {**rule["labels"], **(more or {})},
            "exp_annotations": rule["annotations"],
        }
        test = {"eval_time": at, "alertname": alert, "exp_alerts": [] if more is None else [fired]}
        series = [{"series": SERIES[name], "values": values} for name, values in scraped.items()]
        tests.append({"interval": "1m", "input_series": series, "alert_rule_test": [test]})
    told = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(told))
    done = subprocess.run(
        [promtool, "test", "rules", "tests.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for wanted in (True, False):
        assert {case[0] for case in CASES if (case[3] is not None) is wanted} == set(RULES)


def test_each_alert_has_a_paragraph() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert re.findall(r"^### (Homeport\w+)\n\n\w", text, re.MULTILINE) == list(RULES)
    for name, rule in RULES.items():
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"


def queries() -> list[str]:
    """Those of the dashboard; of alerts, which have an answer when something is wrong, each metric."""
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    watched = {
        name for rule in RULES.values() for name in re.findall(r"homeport_\w+", rule["expr"])
    }
    return [*shown, *sorted(watched)]


async def test_every_query_has_an_answer(tmp_path: Path) -> None:
    prometheus = program_of_prometheus("prometheus")
    home, port, metrics_port, own_port = tmp_path / "home", free_port(), free_port(), free_port()
    home.mkdir()
    scraped = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": "homeport",
                "static_configs": [{"targets": [f"127.0.0.1:{metrics_port}"]}],
            }
        ],
    }
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(scraped))
    async with fleet(nodes=2, pods=4) as api, aiohttp.ClientSession() as session:
        environ = {
            "PORT": str(port),
            "POD_PORT": str(free_port()),
            "METRICS_PORT": str(metrics_port),
            "HOMEPORT_KUBECONFIG": api.kubeconfig(tmp_path),
        }
        made = await asyncio.to_thread(
            program, home, "-m", "tests.portal.whole", "0", "0", **environ
        )
        token = json.loads(made.stdout.splitlines()[-1])["token"]
        headers = {"Authorization": f"Token {token}"}

        async def until(what: str, url: str, good: Any, **more: Any) -> Any:
            method, seen = more.pop("method", "GET"), None
            for _ in range(180):
                try:
                    async with session.request(method, url, **more) as answer:
                        seen = await answer.text()
                        if (found := good(answer.status, seen)) is not None:
                            return found
                except aiohttp.ClientError as error:
                    seen = repr(error)
                await asyncio.sleep(0.5)
            raise AssertionError(f"{what}: {seen}")

        def has_data(_: int, text: str) -> bool | None:
            told = json.loads(text)
            assert told["status"] == "success", told
            return True if told["data"]["result"] else None

        rest = f"http://localhost:{port}/api/v1/jobs/"
        log = (tmp_path / "prometheus.log").open("wb")
        watching = subprocess.Popen(  # noqa: ASYNC220 (it does not block)
            [
                prometheus,
                f"--config.file={tmp_path}/prometheus.yaml",
                f"--storage.tsdb.path={tmp_path}/tsdb",
                f"--web.listen-address=127.0.0.1:{own_port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            with running(tmp_path, "serve", "serve", **environ_of(home, **environ)):
                asked = {"method": "POST", "json": TRAINING, "headers": headers}

                def submitted(code: int, text: str) -> str | None:
                    return json.loads(text)["id"] if code == 201 else None

                await until("a training that goes on", rest, submitted, **asked)
                job = await until("one that ends", rest, submitted, **asked)
                await until(
                    "its start",
                    f"{rest}{job}/",
                    lambda c, t: True if json.loads(t)["state"] == "starting" else None,
                    headers=headers,
                )
                stop = {"method": "POST", "headers": headers}
                await until("its stop", f"{rest}{job}/stop/", lambda c, t: c < 300 or None, **stop)
                for query in queries():
                    address = f"http://127.0.0.1:{own_port}/api/v1/query"
                    await until(query, address, has_data, params={"query": query})
        finally:
            watching.terminate()
            watching.wait(20)
            log.close()
