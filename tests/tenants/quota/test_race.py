"""Many leads at once never give more than the budget.

Sixteen of them give GPUs of one budget to eight people, on a database file of their own: the module
runs once more as a process with its own HOMEPORT_HOME, and prints what came of it as JSON.
"""

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
THREADS = 16
TRIES = 20
BUDGET = 12


def test_sixteen_leads_at_once_never_overshoot_the_budget(tmp_path: Path):
    environment = {
        **os.environ,
        "HOMEPORT_HOME": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.tenants.quota.test_race"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # Nobody failed in another way, such as with a locked database.
    assert found["changed"] + found["refused"] == THREADS * TRIES
    assert done.stderr == ""
    # The budget was really contended for.
    assert found["refused"] > 0
    assert BUDGET - 2 <= found["most"] <= BUDGET
    assert found["total"] <= BUDGET


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from portal.errors import Refused
    from tenants.models import Team, Tenant
    from tenants.quota.rules import change_quota, quota_sums
    from tests.factories import make_tenant, make_user

    call_command("migrate", verbosity=0)
    team = Team.objects.create(name="vision", budget_gpu_count=BUDGET)
    tenants = [make_tenant(f"person{number}", team=team) for number in range(8)]
    Tenant.objects.update(quota_gpu_count=0)
    leads = [make_user(f"lead{number}", team=team) for number in range(THREADS)]
    team.leads.add(*leads)
    results: Counter[str] = Counter()
    most = 0
    start = threading.Barrier(THREADS)

    def steer(lead: object, seed: int) -> None:
        nonlocal most
        chance = random.Random(seed)
        start.wait()
        for _ in range(TRIES):
            wanted = chance.randint(0, 6)
            try:
                change_quota(by=lead, tenant=chance.choice(tenants), quota={"gpu": wanted})
                results["changed"] += 1
            except Refused:
                results["refused"] += 1
            # A read of its own: what everybody else would see at this moment.
            most = max(most, quota_sums([team.pk])[team.pk]["gpu"])
        connection.close()

    threads = [threading.Thread(target=steer, args=(lead, seed)) for seed, lead in enumerate(leads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = quota_sums([team.pk])[team.pk]["gpu"]
    print(json.dumps({**results, "most": most, "total": total}))


if __name__ == "__main__":
    main()
