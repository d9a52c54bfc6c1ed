"""Tries whether a cluster has what Homeport needs, before it is installed and afterwards."""

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from jobs.engine.network import UnknownError
from jobs.preflight.gather import gather, installed_settings, missing_rights
from jobs.preflight.trial import NAMESPACE as TRIAL
from jobs.rules.check_results import KEY, NAMESPACE, TEXT_MAX, CheckFound, CheckResults
from jobs.rules.preflight import ClusterFacts, lines_after, lines_before
from portal.characters import visible
from portal.cluster.client import Cluster
from portal.cluster.errors import AlreadyExists, ClusterError, CredentialsError, NotFound
from portal.version import VERSION

_SIGNS = {"passed": "ok", "failed": "FAILED", "skipped": "-", "warned": "warning"}
_MARK = "HOMEPORT_PREFLIGHT_OF_INSTALLATION"  # set where the settings are the installation's


class Command(BaseCommand):
    """`manage.py preflight --kubeconfig ADMIN [--keep]`; exit code 1 when something failed."""

    help = __doc__ or ""
    # Before it is installed there is no database, and files of pods are not on this machine.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--kubeconfig", default="", help="of a cluster administrator; empty: the pod's account"
        )
        parser.add_argument("--keep", action="store_true", help=f"leave the namespace {TRIAL}")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            is_good = asyncio.run(self._run(options["kubeconfig"], is_kept=options["keep"]))
        except CredentialsError as error:
            raise CommandError(f"Name an administrator's kubeconfig: {error}") from error
        except UnknownError as error:
            raise CommandError(" ".join(error.args)) from error
        except (ClusterError, TimeoutError) as error:
            raise CommandError(f"The cluster cannot be read or changed: {error}") from error
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise CommandError("It was ended; nothing of it is left.", returncode=130) from None
        if not is_good:
            sys.exit(1)

    async def _run(self, kubeconfig: str, *, is_kept: bool) -> bool:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        cluster = await Cluster.connect(kubeconfig)
        try:
            missing = await missing_rights(cluster)
            site = {} if missing else await installed_settings(cluster)
            if site and _MARK not in os.environ:
                # The settings of this process were read when it started: once more, with these.
                environment = {**os.environ, **{k: v for k, v in site.items() if v}, _MARK: "yes"}
                os.execve(sys.executable, [sys.executable, *sys.argv], environment)
            began = time.monotonic()
            found: list[CheckFound] = []

            def say(checks: list[CheckFound]) -> None:
                for check in map(_readable, checks):
                    self._say(check)
                    found.append(check)

            def before(facts: ClusterFacts) -> None:
                say(lines_before(facts))

            facts = await gather(cluster, site, missing, before, is_kept=is_kept)
            say(lines_after(facts))
            took_s = round(time.monotonic() - began, 1)
            pull_s = facts.trial.pull_s or 0
            self.stdout.write(f"It took {took_s:.0f} s, {pull_s:.0f} s of it for the image.")
            results = CheckResults("preflight", timezone.now(), VERSION, took_s, found)
            if not missing:
                await _keep(cluster, results)
        finally:
            await cluster.close()
        return not results.with_outcome("failed")

    def _say(self, check: CheckFound) -> None:
        self.stdout.write(f"{_SIGNS[check.outcome]:8} {check.name}: {check.words}")
        if check.next_step:
            self.stdout.write(f"         {check.next_step}")
        self.stdout.flush()


def _readable(check: CheckFound) -> CheckFound:
    """Words of clusters may be long, and have what a terminal obeys."""
    words, step = visible(check.words)[:TEXT_MAX], visible(check.next_step)[:TEXT_MAX]
    return CheckFound(check.name, check.outcome, words, step)


async def _keep(cluster: Cluster, results: CheckResults) -> None:
    """For the health page, where Homeport has its namespace."""
    data = {KEY: json.dumps(results.as_json())}
    meta = {"name": results.kind, "namespace": NAMESPACE}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    try:
        await cluster.create(body)
    except AlreadyExists:
        await cluster.merge_patch("ConfigMap", NAMESPACE, results.kind, {"data": data})
    except NotFound:
        return
