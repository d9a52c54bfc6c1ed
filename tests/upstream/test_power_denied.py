"""What Homeport's accounts must not be able to do, tried for real with the token of each."""

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.cluster import access
from portal.cluster.access import AccountAccess
from portal.cluster.client import Cluster
from tests.e2e.portal import ROOT
from tests.tools.kubectls import current_kubectl
from tests.upstream.powerhouse import OURS, Scene, scene
from tests.upstream.refused import ALL, CALLS

pytestmark = pytest.mark.upstream


@pytest.fixture(scope="module")
def stage() -> Iterator[Scene]:
    with scene() as made:
        yield made


@pytest.mark.parametrize("name", ALL)
def test_each_account_is_refused_what_it_does_not_need(stage: Scene, name: str) -> None:
    before = stage.everything()
    tried = [call for call in CALLS if name in call.by]
    assert len(tried) >= 25
    wrong = []
    for call in tried:
        reply = stage.callers[name].call(call.method, call.path, call.body, call.headers)
        if reply.status != 403 or call.words.get(name, "") not in reply.text:
            wrong.append(f"{call.name}: {reply.status} {reply.text[:300]}")
    assert wrong == []
    after = stage.everything()
    assert after == before


def test_what_is_refused_here_can_be_done_by_an_admin(stage: Scene) -> None:
    """Or the refusals would say nothing: paths and bodies are right."""
    admin = stage.callers["admin"]
    wrong = []
    for call in CALLS:
        is_for_nobody = "PodSecurity" in call.words.values()
        if is_for_nobody or call.headers or call.method == "GET" or "/token" in call.path:
            continue
        mark = "&" if "?" in call.path else "?"
        reply = admin.call(call.method, f"{call.path}{mark}dryRun=All", call.body)
        if reply.status in {401, 403, 404, 405}:
            wrong.append(f"{call.name}: {reply.status} {reply.text[:200]}")
    assert wrong == []


async def look(stage: Scene, account: str) -> AccountAccess:
    path = stage.accounts.kubeconfigs.get(account, stage.accounts.admin_kubeconfig)
    cluster = await Cluster.connect(str(path))
    try:
        return await access.look(cluster, OURS)
    finally:
        await cluster.close()


async def test_the_health_page_knows_what_the_account_may_do(stage: Scene) -> None:
    assert await look(stage, "reconciler") == AccountAccess("yes")


async def test_the_health_page_tells_an_account_that_may_not_or_may_too_much(stage: Scene) -> None:
    web, admin = await look(stage, "web"), await look(stage, "admin")
    assert "create namespaces" in web.missing
    assert admin.missing == ()
    assert {"delete persistentvolumeclaims", "list secrets"} <= {*admin.excess}


def test_the_kubeconfigs_that_the_document_tells_to_make_are_those_of_the_accounts(
    stage: Scene, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "cluster.md").read_text()
    found = re.search(r"^    server=.*?^    done$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    accounts, programs = stage.accounts, tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(current_kubectl())
    environment = {
        **os.environ,
        "KUBECONFIG": str(accounts.admin_kubeconfig),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    script = textwrap.dedent(found[0])
    command = ["bash", "-euc", script]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120)
    for account in ALL:
        path = tmp_path / f"{account}.kubeconfig"
        assert path.stat().st_mode & 0o777 == 0o600
        name = "jsonpath={.status.userInfo.username}"
        ask = ["kubectl", f"--kubeconfig={path}", "auth", "whoami", "-o", name]
        said = subprocess.run(
            ask, env=environment, check=True, capture_output=True, text=True, timeout=60
        )
        assert said.stdout == f"system:serviceaccount:homeport:{account}"
