"""Sixteen leads give GPUs of one budget to eight people at once, on a database file of their own.

Run by `test_race.py` as a process with its own HOMEPORT_HOME; prints what came of it as JSON.
"""

import json
import os
import random
import threading
from collections import Counter

THREADS = 16
TRIES = 20
BUDGET = 12


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
