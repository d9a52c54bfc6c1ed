"""Paths and addresses of a pod without namespaces, as they are translated."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onebox.node.gpus import Inventory
from onebox.node.nodestatus import Offer, conditions
from onebox.node.plain.callfilter import build_filter
from onebox.node.plain.calls import SIGNATURES, STEERED, numbers
from onebox.node.plain.links import follow
from onebox.node.plain.loopback import Loopback
from onebox.node.plain.trial import judge
from onebox.node.plain.view import View
from onebox.node.spec import Limits, SandboxUnavailable

VIEW = View(
    {"/usr": True, "/dev": False},
    {
        "/data": ("/volumes/d", False),
        "/data/inner": ("/volumes/i", True),
        "/dev/shm": ("/memory/s", False),
        "/envs/e": ("/envs/e", True),
    },
    "/stage/tree",
    read_only_root=False,
)


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/data", "/volumes/d"),
        ("/data/", "/volumes/d/"),
        ("/data/a/b", "/volumes/d/a/b"),
        ("/data/inner/x", "/volumes/i/x"),
        ("/data/innerx", "/volumes/d/innerx"),
        ("/database", "/stage/tree/database"),
        ("//data//a", "/volumes/d/a"),
        ("/data/./a/../b", "/volumes/d/b"),
        ("/data/../etc/passwd", "/stage/tree/etc/passwd"),
        ("/dev/shm/x", "/memory/s/x"),
        ("/home/someone/.ssh", "/stage/tree/home/someone/.ssh"),
        ("/volumes/d/a", "/volumes/d/a"),
        ("/envs/e/bin/python", "/envs/e/bin/python"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("/data/..hidden", "/volumes/d/..hidden"),
    ],
)
def test_a_path_leads_to_its_file(path: str, real: str) -> None:
    assert VIEW.real(path) == real
    assert VIEW.real(path) == real  # remembered


def test_devices_are_the_machines_and_the_root_is_the_containers() -> None:
    assert VIEW.find(b"/dev/null") is None
    for path in ("/", "//", "/data/..", "/."):
        assert VIEW.real(path) == "/stage/tree"


def test_mounts_and_programs_know_whether_they_can_be_written() -> None:
    for path, is_read_only in (("/data/x", False), ("/data/inner/x", True), ("/usr/x", True)):
        place = VIEW.find(path.encode())
        assert place is not None
        assert place.is_read_only is is_read_only
    mount = VIEW.find(b"/data/inner")
    assert mount is not None
    assert mount.is_mount


@pytest.mark.parametrize(
    ("real", "shown"),
    [
        ("/volumes/d/a", "/data/a"),
        ("/volumes/d", "/data"),
        ("/volumes/i/x", "/data/inner/x"),
        ("/stage/tree", "/"),
        ("/stage/tree/opt", "/opt"),
        ("/usr/lib", None),
        ("/envs/e/lib", None),
    ],
)
def test_a_working_directory_is_shown_as_the_container_knows_it(
    real: str, shown: str | None
) -> None:
    found = VIEW.virtual(real.encode())
    assert (found.decode() if found is not None else None) == shown


def test_links_mean_paths_of_the_container(tmp_path: Path) -> None:
    for name in ("d", "l", "root"):
        (tmp_path / name).mkdir()
    (tmp_path / "d" / "file").write_text("data")
    (tmp_path / "l" / "there").symlink_to("/data/file")
    (tmp_path / "l" / "folder").symlink_to("/data")
    (tmp_path / "l" / "up").symlink_to("../data/file")
    (tmp_path / "l" / "python").symlink_to("/usr/bin/python3")
    (tmp_path / "l" / "round").symlink_to("/log/round")
    places = {"/data": (f"{tmp_path}/d", False), "/log": (f"{tmp_path}/l", False)}
    view = View({"/usr": True}, places, f"{tmp_path}/root", read_only_root=False)

    def real(path: bytes, *, stays: bool = False) -> str:
        place = view.find(path)
        assert place is not None
        return os.fsdecode(follow(view, path, place, stays=stays).real)

    assert real(b"/log/there") == f"{tmp_path}/d/file"
    assert real(b"/log/folder/file") == f"{tmp_path}/d/file"
    assert real(b"/log/up") == f"{tmp_path}/d/file"
    assert real(b"/log/python") == "/usr/bin/python3"
    assert real(b"/log/there", stays=True) == f"{tmp_path}/l/there"
    assert real(b"/log/folder/new", stays=True) == f"{tmp_path}/d/new"
    with pytest.raises(OSError, match="Too many levels"):
        real(b"/log/round")


def test_addresses_of_the_cluster_lie_on_the_loopback_interface() -> None:
    moved, real = Loopback(88, True), Loopback(90, False)
    assert moved.locate("10.244.3.4", 2222) == ("127.88.3.4", 2222)
    assert moved.locate("10.96.0.7", 80) == ("127.89.0.7", 64592)
    assert real.locate("10.96.0.7", 80) == ("127.91.0.7", 80)
    assert moved.locate("192.0.2.1", 80) == ("192.0.2.1", 80)
    # The portal may listen on all addresses at the very port by which pods know the gateway.
    assert moved.locate("10.244.0.1", 8000) != ("127.88.0.1", 8000)
    assert len({moved.locate("10.244.0.1", port) for port in (53, 3128, 8000, 9000)}) == 4


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_asks_about_every_call_that_is_answered(machine: str) -> None:
    program = build_filter(machine)
    assert len(program) // 8 < 4096
    known = numbers(machine)
    asked = [name for name in (*SIGNATURES, *STEERED, "bind", "connect", "sendto") if name in known]
    for name in asked:
        # code 0x15 is "jump if equal", followed by two offsets and the number
        assert any(
            program[at : at + 2] == b"\x15\0"
            and program[at + 4 : at + 8] == known[name].to_bytes(4, "little")
            for at in range(0, len(program), 8)
        ), name


def test_the_trial_is_judged() -> None:
    report = {"said": ["/tmp", "onebox-trial"], "cwd": "/tmp", "files": True, "capabilities": 0}
    lost = judge(report, is_root=False)
    assert lost
    assert len(judge(report, is_root=True)) == len(lost) + 1
    for name, wrong in (("said", []), ("cwd", "/x"), ("files", False), ("capabilities", 1)):
        with pytest.raises(SandboxUnavailable, match=name):
            judge({**report, name: wrong}, is_root=False)


def test_the_node_says_what_is_lost() -> None:
    limits = Limits("watched", cpu=False, pids=False)
    machine = ("onebox", 8, 2, 1 << 30, 1 << 30, Inventory((), simulated=False))
    offer = Offer(*machine, mode="plain", limits=limits, notes=("No boundary.",))
    found = {c["type"]: c for c in conditions(offer, datetime.now(UTC), is_ready=True)}
    isolation = found["homeport.dev/Isolation"]
    assert (isolation["status"], isolation["reason"]) == ("False", "PlainProcesses")
    assert isolation["message"].endswith("No boundary.")
    assert "own network" not in isolation["message"]
