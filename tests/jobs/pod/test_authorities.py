"""Whom programs in pods trust: a portal and a store with a certificate of the site's own authority."""

from pathlib import Path

import pytest

from tests.jobs.pod.pods import FakeDoor, Pod
from tests.jobs.pod.test_fetch import refused, workspace
from tests.tools.authority import Authority

OURS, PEOPLES = "SSL_CERT_FILE", "HOMEPORT_AUTHORITIES"  # whose variables these are


@pytest.fixture
def site(pod: Pod, door: FakeDoor, tmp_path: Path) -> str:
    """A file with the authority of the portal and its store."""
    authority = Authority(tmp_path / "site")
    door.speak_tls(*authority.pair("server"))
    pod.environ["HOMEPORT_URL"] = door.url
    pod.config["retry_s"] = 0.2
    return str(authority.folder / "ca.crt")


@pytest.fixture
def other(tmp_path: Path) -> str:
    return str(Authority(tmp_path / "other").folder / "ca.crt")


def test_code_and_what_a_lost_replica_left_pass_by_an_authority_of_the_site(
    pod: Pod, door: FakeDoor, site: str, other: str
) -> None:
    pod.config["source"] = {"bundle": "b"}
    assert pod.run()[0] == 0  # the log stays on the volume
    for given in ({}, {OURS: other}):
        pod.environ.update(given)
        assert "certificate verify failed" in refused(pod, "source_unreachable")
        pod.program("rescue")
        assert not door.calls
    pod.environ[OURS] = site
    assert pod.program("fetch")[0] == 0
    assert workspace(pod) == {"train.py": door.bundle[1]}
    assert pod.program("rescue") == (0, "[homeport] attempt 1 of worker-0 is shipped\n")
    assert door.log() == b"hello\n"


@pytest.mark.parametrize(
    ("image", "given", "is_shipped"),
    [
        ("other", "", False),
        ("other", "nothing", False),
        ("other", "site", True),
        ("", "site", True),
        ("site", "other", True),
    ],
)
def test_a_runner_trusts_the_site_beside_what_the_image_trusts(
    pod: Pod, site: str, other: str, image: str, given: str, is_shipped: bool
) -> None:
    files = {"site": site, "other": other, "nothing": "/run/none.pem"}
    told = {name: files[file] for name, file in ((OURS, image), (PEOPLES, given)) if file}
    pod.environ |= told
    pod.python(
        f"import os; print({{n: os.environ[n] for n in {(OURS, PEOPLES)} if n in os.environ}})"
    )
    # Whatever becomes of its log: the program runs, and finds its image's variables as they were.
    code, output = pod.run()
    assert (code, output.decode().splitlines()[0]) == (0, str(told))
    assert pod.message["uploaded"] is is_shipped
