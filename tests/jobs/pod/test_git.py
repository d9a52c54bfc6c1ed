"""Code from git: a real git, a real server of git's own, and servers that do what they should not."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.pod import git as pod_git
from jobs.pod import sources
from jobs.pod.errors import PodError
from jobs.pod.portal_client import PortalClient
from onebox.testing.processes import naming
from tests.jobs.pod.git_backend import git
from tests.jobs.pod.git_server import GitServer
from tests.jobs.pod.pods import TOKEN, FakeDoor, Pod
from tests.jobs.pod.ssh_server import SshServer
from tests.jobs.pod.test_fetch import brought, refused, workspace
from tests.tools.waiting import wait_for


@pytest.fixture
def server(tmp_path: Path, pod: Pod) -> Iterator[GitServer]:
    made = GitServer(tmp_path)
    pod.environ["GIT_SSL_CAINFO"] = str(made.ca_file)
    yield made
    made.answers.set()
    made.close()


@pytest.fixture
def here(pod: Pod, server: GitServer, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """`failure` fetches in this process, where a test may change the limits."""
    monkeypatch.setenv("GIT_SSL_CAINFO", str(server.ca_file))
    monkeypatch.setattr(pod_git.time, "sleep", lambda _s: None)
    return pod


def failure(pod: Pod, **source: str) -> PodError:
    pod.config["source"] = source
    portal = PortalClient(pod.door.url, TOKEN)
    before = workspace(pod)
    with pytest.raises(PodError) as caught:
        sources.bring(pod.config, portal, str(pod.root / "workspace"))
    assert workspace(pod) == before
    return caught.value


def test_a_branch_a_tag_and_a_commit_bring_their_files(
    pod: Pod, server: GitServer, door: FakeDoor
) -> None:
    first = server.commit(**{"train.py": "1", "pkg__run.sh": "2"})
    (server.work / "pkg/run.sh").chmod(0o755)
    tagged = server.commit()
    git(server.work, "tag", "-a", "v1", "-m", "one")
    second = server.commit(**{"train.py": "3"})
    for ref, commit, text in (
        ("main", second, b"3"),
        ("", second, b"3"),
        ("refs/heads/main", second, b"3"),
        ("v1", tagged, b"1"),
        (first, first, b"1"),
    ):
        door.commit = ""
        assert brought(pod, git=server.address, ref=ref) == {"train.py": text, "pkg/run.sh": b"2"}
        assert door.commit == commit
    door.commit = ""
    for into in ("", "code/project"):
        source = {"git": server.address, "ref": "v1", "path": "pkg"}
        pod.config["source"] = {**source, "into": into} if into else source
        said = f"[homeport] the code is commit {tagged[:12]} of {server.url} (1 files)\n"
        assert pod.program("fetch") == (0, said)
        assert os.access(pod.root / "workspace" / into / "run.sh", os.X_OK)
        # Nothing of the repository is left beside the code.
        assert [*workspace(pod)] == [os.path.join(into, "run.sh")]


def test_all_replicas_and_attempts_take_the_commit_that_was_told_first(
    pod: Pod, server: GitServer, door: FakeDoor
) -> None:
    first = server.commit(**{"train.py": "1"})
    assert brought(pod, git=server.address, ref="main") == {"train.py": b"1"}
    server.commit(**{"train.py": "2"})
    assert brought(pod, git=server.address, ref="main") == {"train.py": b"1"}
    git(server.work, "checkout", "--quiet", "--detach")
    git(server.work, "branch", "--quiet", "-D", "main")
    assert brought(pod, git=server.address, ref="main") == {"train.py": b"1"}
    # What the attempt was rendered with needs no question.
    door.status = 503
    assert brought(pod, git=server.address, ref="main", commit=first) == {"train.py": b"1"}


def test_another_replica_may_tell_its_commit_meanwhile(
    pod: Pod, server: GitServer, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server.commit(**{"train.py": "1"})
    server.commit(**{"train.py": "2"})
    asked: list[str] = []

    def post(path: str, body: dict[str, str]) -> dict[str, str]:
        asked.append(body["commit"])
        return {"commit": first if body["commit"] else ""}

    monkeypatch.setattr(door, "post", post)
    assert brought(pod, git=server.address, ref="main") == {"train.py": b"1"}
    assert asked == ["", git(server.work, "rev-parse", "main")]


def test_a_commit_that_is_gone_is_not_replaced_by_the_newest(here: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    here.door.commit = "ab" * 20
    found = failure(here, git=server.address, ref="main")
    assert (found.reason, "abababababab" in str(found)) == ("git_gone", True)
    assert workspace(here) == {}


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ({"ref": "gone"}, "git_ref", "no branch or tag gone"),
        ({"ref": "c0ffee1"}, "git_ref", "all of its 40 digits"),
        ({"ref": "12" * 20}, "git_ref", "no commit 121212121212"),
        ({"ref": "a-file"}, "git_ref", "is not a commit"),
        ({"path": "src"}, "git_path", "has no folder src"),
        ({"path": "train.py"}, "git_path", "has no folder train.py"),
        ({"path": "out"}, "git_path", "has no folder out"),  # a link to /etc
        ({"path": "out/ssl"}, "git_path", "has no folder"),
        ({"path": "../project"}, "git_path", "has no folder"),
        ({"git": "/project/none.git"}, "source_unreachable", "has no such repository"),
    ],
)
def test_what_is_not_there_is_told(
    here: Pod, server: GitServer, source: dict[str, str], reason: str, words: str
) -> None:
    (server.work / "out").symlink_to("/etc")
    server.commit(**{"train.py": "1"})
    git(server.work, "tag", "a-file", "HEAD:train.py")
    where = server.url + source["git"] if "git" in source else server.address
    found = failure(here, **{**source, "git": where})
    assert (found.reason, words in str(found)) == (reason, True), str(found)
    assert (workspace(here), here.door.commit) == ({}, "")


def test_a_server_that_asks_for_a_password_is_not_given_one(pod: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    server.password = "Basic YWRhOnNlY3JldA=="  # ada:secret
    home = pod.root / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login ada password secret\n")
    (home / ".gitconfig").write_text("[credential]\nhelper = store\n")
    (home / ".git-credentials").write_text(server.url.replace("//", "//ada:secret@") + "\n")
    asked = home / "asked"
    (home / "ask").write_text(f"#!/bin/sh\ntouch {asked}\necho secret\n")
    (home / "ask").chmod(0o755)
    pod.environ |= {
        "HOME": str(home),
        "GIT_ASKPASS": str(home / "ask"),
        "SSH_ASKPASS": str(home / "ask"),
    }
    # Each of these would have let it in.
    git_env = {**pod.environ, "GIT_SSL_CAINFO": str(server.ca_file)}
    assert os.spawnvpe(os.P_WAIT, "git", ["git", "ls-remote", "-q", server.address], git_env) == 0
    assert "asks for a password" in refused(pod, "git_denied", git=server.address)
    assert not asked.exists()


def test_a_redirect_is_not_followed(here: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    server.redirect = server.url
    found = failure(here, git=server.address)
    assert found.reason == "source_unreachable"
    assert "redirects to another address" in str(found)
    assert len(server.asked) == 1  # and it is not tried again


@pytest.mark.parametrize("scheme", ["file", "http", "ssh", "git", "ext"])
def test_no_other_protocol_is_spoken(here: Pod, server: GitServer, scheme: str) -> None:
    server.commit(**{"train.py": "1"})
    address = {"file": f"file://{server.work}", "ext": "ext::touch /tmp/homeport-ext"}.get(
        scheme, f"{scheme}://127.0.0.1:1/x.git"
    )
    assert failure(here, git=address).reason == "source_unreachable"
    # What the portal would not pass on is refused by git, too.
    repository = pod_git._Repository(address, str(here.root / "workspace"), 2**20)
    with pytest.raises(PodError, match=r"transport .* not allowed"):
        repository.fetch("main", is_pinned=False)
    repository.close()


def test_nothing_of_a_repository_and_of_the_system_is_run(
    pod: Pod, server: GitServer, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hook = tmp_path / "templates/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        f"[init]\ntemplateDir = {hook.parents[1]}\n[core]\nhooksPath = {hook.parent}\n"
        f'[filter "lfs"]\nsmudge = touch {ran}\nrequired = true\n'
        f'[url "https://127.0.0.1:1/"]\ninsteadOf = {server.url}/\n'
    )
    pod.environ |= {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_SYSTEM": str(config),
        "GIT_TEMPLATE_DIR": str(hook.parents[1]),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "include.path",
        "GIT_CONFIG_VALUE_0": str(config),
        "GIT_SSL_NO_VERIFY": "1",
    }
    files = {".gitattributes": "*.bin filter=lfs\n", "model.bin": "version https://git-lfs\n"}
    commit = server.commit(**files)
    entry = f"160000,{commit},library"
    git(server.work, "update-index", "--add", "--cacheinfo", entry)
    git(server.work, "commit", "--quiet", "-m", "a submodule")
    pod.config["source"] = {"git": server.address}
    code, said = pod.program("fetch")
    assert (code, "its submodules are not fetched (1)" in said) == (0, True)
    assert workspace(pod) == {name: text.encode() for name, text in files.items()}
    assert not ran.exists()
    # Nor is a certificate that nobody vouches for taken.
    del pod.environ["GIT_SSL_CAINFO"]
    assert "certificate" in refused(pod, "source_unreachable", git=server.address)


def test_the_authority_that_python_is_told_serves_git_too(pod: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    pod.environ["SSL_CERT_FILE"] = pod.environ.pop("GIT_SSL_CAINFO")
    assert brought(pod, git=server.address) == {"train.py": b"1"}


def test_what_is_too_large_is_refused_before_it_is_written(
    here: Pod, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.commit(a="x" * 600, b="y" * 600, small__c="z")
    monkeypatch.setattr(pod_git.codes, "MAX_UNPACKED_BYTES", 1000)
    assert failure(here, git=server.address).reason == "bundle_too_large"
    monkeypatch.setattr(pod_git.codes, "MAX_UNPACKED_BYTES", 10_000)
    monkeypatch.setattr(pod_git.codes, "MAX_MEMBERS", 2)
    assert failure(here, git=server.address).reason == "bundle_too_large"
    monkeypatch.setattr(pod_git.codes, "MAX_MEMBERS", 3)
    monkeypatch.setattr(pod_git.codes, "MAX_NAME_PART_BYTES", 4)
    assert failure(here, git=server.address).reason == "bundle_unsafe"
    assert here.door.commit == ""


def test_a_server_that_never_ends_is_cut_off(here: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    server.floods = True
    here.config["limits"]["bundle_bytes"] = 4 * 1024**2
    found = failure(here, git=server.address)
    assert found.reason == "bundle_too_large"
    assert "larger than 4 MiB" in str(found)
    assert server.is_cut.wait(20)
    assert 4 * 1024**2 < server.flooded_bytes < 2**32 - 2**20


def test_a_server_that_does_not_answer_is_left(
    here: Pod, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers.clear()
    monkeypatch.setattr(pod_git, "TOTAL_S", 1)
    started = time.monotonic()
    found = failure(here, git=server.address)
    assert (found.reason, "within 1 s" in str(found)) == ("source_unreachable", True)
    assert time.monotonic() - started < 10
    # Neither is its helper, which has the connection.
    wait_for("no helper is left", lambda: not naming(server.address), timeout_s=5)


def test_a_server_that_is_away_is_tried_again(here: Pod, server: GitServer) -> None:
    server.commit(**{"train.py": "1"})
    here.config["source"] = {"git": server.address.replace(server.url, "https://127.0.0.1:1")}
    found = failure(here, **here.config["source"])
    assert found.reason == "source_unreachable"
    assert "project" not in str(found)  # a path may be a secret


def test_what_a_server_says_names_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "https://host:8443/Lab/secret%20plans/model.git"
    repository = pod_git._Repository(address, str(tmp_path), 2**20)
    for said in (
        f"unable to access '{address}/': The requested URL returned error: 500",
        "remote error: /Lab/secret plans/model.git is locked",
        "MODEL of 'secret plans' is locked (secret%20plans)",
    ):
        monkeypatch.setattr(repository, "_said", lambda said=said: f"fatal: {said}\n")
        found = repository._last_words()
        assert not re.search("secret|plans|model", found, re.IGNORECASE), found
        assert "is locked" in found or "'https://host:8443': The requested URL" in found


def test_a_pod_without_git_says_so(pod: Pod, server: GitServer) -> None:
    pod.environ["PATH"] = str(pod.root)
    assert "no program git" in refused(pod, "no_git", git=server.address)


def put_secret(pod: Pod, **values: str) -> None:
    """As the kubelet mounts it: readable by others, and through links."""
    folder = pod.root / "run/git-secret"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "..data").mkdir(parents=True)
    for name, text in values.items():
        (folder / "..data" / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")


def test_a_password_of_a_secret_opens_what_needs_one(pod: Pod, server: GitServer) -> None:
    commit = server.commit(**{"train.py": "1"})
    server.password = "Basic YWRhOmNhbmFyeSBvZiBhZGE="  # ada:canary of ada
    # An authority that nobody but the secret vouches for.
    ca = Path(pod.environ.pop("GIT_SSL_CAINFO")).read_text()
    put_secret(pod, username="ada\n", password="canary of ada", askpass="x", **{"ca.crt": ca})
    pod.config["source"] = {"git": server.address, "secret": "host"}
    pod.environ["GIT_TRACE"] = pod.environ["GIT_CURL_VERBOSE"] = str(pod.root / "trace")
    code, said = pod.program("fetch")
    assert (code, workspace(pod)) == (0, {"train.py": b"1"}), said
    assert pod.door.commit == commit
    text = said + "".join(path.read_text() for path in pod.root.glob("dev/*"))
    assert "canary" not in text
    assert not list(Path(tempfile.gettempdir()).glob("homeport-*/askpass"))
    put_secret(pod, username="ada", token="wrong", **{"ca.crt": ca})
    assert "asks for a password" in refused(pod, "git_denied")
    # The credentials of a host that leads elsewhere are not sent there.
    other = server.asked.copy()
    server.redirect = server.url.replace("127.0.0.1", "localhost")
    assert "redirects" in refused(pod, "source_unreachable")
    assert len(server.asked) == len(other) + 1


def test_a_key_of_a_secret_opens_what_is_behind_ssh(
    pod: Pod, server: GitServer, tmp_path: Path
) -> None:
    server.commit(**{"train.py": "1"})
    host = SshServer(tmp_path / "ssh")
    with host.running():
        source = {"git": f"{host.address}{server.work}/.git", "secret": "key"}
        right = {"ssh-privatekey": host.key.rstrip(), "known_hosts": host.known_hosts}
        put_secret(pod, **right)
        assert brought(pod, **source) == {"train.py": b"1"}
        put_secret(pod, **{**right, "ssh-privatekey": host.new_key("eve")})
        assert "does not take the key" in refused(pod, "git_denied", **source)
        put_secret(pod, **{**right, "ssh-privatekey": "no key"})
        assert "does not take the key" in refused(pod, "git_denied", **source)
        host.new_key("other")
        public = (host.folder / "other.pub").read_text()
        changed = host.known_hosts.split()[0] + " " + public
        put_secret(pod, **{**right, "known_hosts": changed})
        assert "another key than known_hosts" in refused(pod, "git_host_key", **source)
        put_secret(pod, **{**right, "known_hosts": "elsewhere " + public})
        assert "another key than known_hosts" in refused(pod, "git_host_key", **source)
        put_secret(pod, **right)
        gone = {**source, "git": f"{host.address}/no/such.git"}
        assert "no such repository" in refused(pod, "source_unreachable", **gone)
