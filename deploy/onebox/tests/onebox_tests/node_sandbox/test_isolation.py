"""What a container sees of the host: an allow-list, and no right that could widen it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from onebox.node.interpreter import real_interpreter
from onebox.node.sandbox import GATEWAY_IP, ImageEnv, Mount, StartError

from .bench import IMAGE, IS_ROOT, PYTHON, Bench

LOOK = """
import errno, os, sys
for path in sys.argv[1:]:
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(5))
    except OSError as error:
        print(path, errno.errorcode[error.errno])
"""


async def look(bench: Bench, pod, *paths: str) -> dict[str, str]:
    ended, text = await bench.run(pod, PYTHON, "-I", "-S", "-c", LOOK, *paths)
    assert ended.code == 0, text
    return dict(line.split(" ", 1) for line in text.splitlines())


async def test_nothing_else_of_the_host_exists(bench, pod):
    secret = bench.volume("of-someone-else") / "secret"
    secret.write_text("secret")
    repository = Path(__file__).resolve().parents[5]
    hidden = [
        *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/fstab", "/boot", "/var/lib/dpkg"),
        *("/proc/1/root/etc/passwd", "/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/dev/vda"),
        *(
            "/dev/mem",
            "/dev/kmsg",
            "/dev/fuse",
            "/sys/kernel",
            "/sys/class/block",
        ),
        *("/run/systemd", "/var/run/docker.sock", "/home/cloudsdk", "/proc/sysrq-trigger"),
        str(secret),
        str(secret.parent),
        str(bench.home),
        str(bench.home / "pods"),
        str(repository / "pyproject.toml"),
        os.path.expanduser("~/.ssh"),
        os.path.expanduser("~/.bashrc"),
    ]
    for path, seen in (await look(bench, pod, *hidden)).items():
        assert seen in ("ENOENT", "EACCES", "EPERM", "ENOTDIR"), f"{path}: {seen}"


async def test_of_control_groups_a_container_sees_its_ends_for_memory_at_most(bench, pod):
    """Ends of its own processes; read-only, and nothing of the group of anybody else (test_limits.py)."""
    found = await bench.shell(
        pod,
        # Where there are no control groups there is no /sys/fs either.
        "find /sys/fs -type f 2>/dev/null || true; touch /sys/fs/cgroup/x 2>/dev/null && echo made || true",
    )
    assert found.splitlines() in (
        [],
        ["/sys/fs/cgroup/memory/memory.oom_control"],
        ["/sys/fs/cgroup/memory.events"],
    )


async def test_who_looks_for_network_devices_finds_an_empty_folder(bench, pod):
    found = await bench.shell(
        pod, "find /sys/class; touch /sys/class/net/x 2>/dev/null || echo refused"
    )
    assert found == "/sys/class\n/sys/class/net\nrefused\n"


async def test_the_home_of_the_invoking_user_shows_at_most_the_interpreter(bench, pod):
    home = os.path.expanduser("~")
    seen = (await look(bench, pod, home))[home]
    inside = real_interpreter().startswith(home + "/")
    expected = [real_interpreter()[len(home) + 1 :].split("/")[0]] if inside else None
    assert seen in ("ENOENT", "[]", str(expected)) or home == "/tmp"


async def test_the_masked_files_of_proc_are_empty(bench, pod):
    names = ["/proc/keys", "/proc/timer_list", "/proc/kallsyms", "/proc/interrupts"]
    for path, seen in (await look(bench, pod, *names)).items():
        assert seen in ("b''", "ENOENT"), path


async def test_the_hosts_programs_cannot_be_changed(bench, pod):
    script = """
for path in /usr/bin/x /bin/x /lib/x /etc/ssl/certs/x /proc/sys/kernel/hostname /sys/x \
    /dev/null/x /proc/irq/default_smp_affinity; do
  (echo x > $path) 2>/dev/null && echo "wrote $path"
done
(rm -f /usr/bin/env) 2>/dev/null && echo removed
true
"""
    assert await bench.shell(pod, script) == ""


async def test_a_container_has_no_right_that_root_has(bench, pod):
    program = """
import ctypes, errno, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print({name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")})
print(status["NoNewPrivs"].strip(), status["Seccomp"].strip())
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
attempt("mount", b"none", b"/tmp", b"tmpfs", 0, None)
attempt("umount2", b"/proc/keys", 2)
attempt("unshare", 0x10000000)
attempt("unshare", 0x00020000)
attempt("chroot", b"/tmp")
attempt("sethostname", b"x", 1)
attempt("setuid", 0)
attempt("mknod", b"/tmp/disk", 0o60666, 0xFE00)
attempt("ptrace", 16, 1, 0, 0)
attempt("keyctl", 0, -3, 0) if hasattr(libc, "keyctl") else None
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (40, socket.SOCK_STREAM)):
    try:
        socket.socket(family, kind)
        print(family, "made")
    except OSError as error:
        print(family, errno.errorcode[error.errno])
"""
    lines = (await bench.python(pod, program)).splitlines()
    assert lines[0] == str(dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0))
    assert lines[1] == "1 2"
    for line in lines[2:]:
        assert line.split()[1] in ("EPERM", "EACCES", "EINVAL"), line


async def test_setuid_programs_gain_nothing(bench, pod):
    own = 1000 if IS_ROOT else os.getuid()
    text = await bench.shell(
        pod, "mount | grep ' / ' | grep -c nosuid; id -u; su -c id root </dev/null || echo no"
    )
    assert text.splitlines()[:2] == ["1", str(own)]
    assert "uid=0" not in text


async def test_devices_are_the_harmless_ones(bench, pod):
    text = await bench.shell(pod, "ls /dev; head -c 3 /dev/zero | wc -c; echo x > /dev/null")
    expected = (
        "fd full null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero"
    )
    assert text.split() == [*expected.split(), "3"]


async def test_a_pseudo_terminal_can_be_opened(bench, pod):
    text = await bench.python(pod, "import os; print(os.ttyname(os.openpty()[1]))")
    assert text.startswith("/dev/pts/")


async def test_a_container_writes_to_its_own_root_and_nothing_remains(bench, pod):
    await bench.shell(pod, "echo x > /mine; mkdir /opt/y 2>/dev/null || true; echo x > /tmp/z")
    assert await bench.shell(pod, "ls /mine /tmp/z 2>/dev/null || echo nothing") == "nothing\n"


async def test_a_read_only_root_is_read_only(bench, pod):
    volume = bench.mount("data", "/data")
    script = "for f in /x /tmp/x /home/x; do (echo > $f) 2>/dev/null && echo wrote $f; done; echo > /data/x; echo > /dev/shm/x"
    text = await bench.shell(pod, script, mounts=(volume,), read_only_root=True)
    assert text == ""
    assert (bench.volume("data") / "x").exists()


async def test_a_read_only_mount_is_read_only_and_its_submounts_too(bench, pod):
    volume = bench.mount("data", "/data", read_only=True)
    script = "(echo > /data/x) 2>&1 | grep -o 'Read-only file system'"
    assert await bench.shell(pod, script, mounts=(volume,)) == "Read-only file system\n"


async def test_tmpfs_volumes_and_tmp_are_limited_in_size(bench, pod):
    small = Mount(source="small", path="/small", kind="tmpfs", size_bytes=1 << 20)
    script = (
        "head -c 3000000 /dev/zero > /small/f 2>/small/why || echo full;"
        " df -k /tmp | tail -1 | awk '{print $2}'"
    )
    text = await bench.shell(pod, script, mounts=(small,))
    assert "full" in text
    assert text.splitlines()[-1] == str(2048 * 1024)


async def test_mounts_nest_whatever_their_order(bench, pod):
    (bench.volume("inner") / "file").write_text("inner")
    inner = bench.mount("inner", "/data/deep/er")
    outer = bench.mount("outer", "/data")
    text = await bench.shell(pod, "cat /data/deep/er/file", mounts=(inner, outer))
    assert text == "inner\n"


async def test_a_single_file_can_be_mounted(bench, pod):
    file = bench.volume("config") / "settings.ini"
    file.write_text("a=1")
    mount = Mount(source=str(file), path="/etc/app/settings.ini", read_only=True)
    assert await bench.shell(pod, "cat /etc/app/settings.ini", mounts=(mount,)) == "a=1\n"


async def test_a_link_in_a_volume_leads_a_mount_point_to_no_place_of_the_host(bench, pod):
    """A tenant plants a link in its volume where another mount will be attached."""
    target = bench.home / "victim"
    target.mkdir(mode=0o777)
    (bench.volume("data") / "link").symlink_to(target)
    (bench.volume("other") / "file").write_text("x")
    mounts = (bench.mount("data", "/data"), bench.mount("other", "/data/link/planted"))
    with pytest.raises(StartError, match="/data/link/planted"):
        await bench.start(pod, "/bin/true", mounts=mounts)
    assert list(target.iterdir()) == []


async def test_a_sub_path_never_leaves_its_volume(bench, pod):
    volume = bench.volume("data")
    (volume / "sub").mkdir()
    (volume / "sub" / "file").write_text("inside")
    (volume / "out").symlink_to("/etc")
    (volume / "up").symlink_to("../../..")
    inside = bench.mount("data", "/a", sub_path="sub")
    assert await bench.shell(pod, "cat /a/file", mounts=(inside,)) == "inside\n"
    up = bench.mount("data", "/a", sub_path="up")
    assert (await bench.shell(pod, "ls /a", mounts=(up,))).split() == ["out", "sub", "up"]
    with pytest.raises(StartError, match="cannot be mounted"):
        await bench.start(pod, "/bin/true", mounts=(bench.mount("data", "/a", sub_path="out"),))


async def test_a_folder_below_closed_ones_appears_at_its_own_path(bench, pod):
    """As an environment or an interpreter below a home of mode 0700 does."""
    closed = bench.home / "closed"
    folder = closed / "env"
    folder.mkdir(parents=True)
    (folder / "file").write_text("seen")
    closed.chmod(0o700)
    image = ImageEnv(
        "closed", "sha256:0", IMAGE.env, (Mount(str(folder), str(folder), read_only=True),)
    )
    assert await bench.shell(pod, f"cat {folder}/file", image=image) == "seen\n"


async def test_hosts_loopback_and_sockets_are_out_of_reach(bench, pod):
    with socket.create_server(("127.0.0.1", 0)) as loopback, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0onebox-test-abstract")
        local.listen()
        port = loopback.getsockname()[1]
        program = f"""
import socket
for family, address in (
    (socket.AF_INET, ("127.0.0.1", {port})),
    (socket.AF_INET, ("{GATEWAY_IP}", {port})),
    (socket.AF_UNIX, "\\0onebox-test-abstract"),
):
    try:
        socket.socket(family).connect(address)
        print("connected", address)
    except ConnectionRefusedError:
        pass
"""
        assert await bench.python(pod, program) == ""


async def test_the_addresses_of_the_host_are_unreachable_at_once(bench, pod):
    program = """
import socket, time
began = time.monotonic()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=10)
except OSError as error:
    print(error.strerror, time.monotonic() - began < 3)
"""
    assert await bench.python(pod, program) == "Network is unreachable True\n"


async def test_extra_devices_appear(bench, pod):
    devices = ("/dev/loop-control",) if os.path.exists("/dev/loop-control") else ("/dev/kmsg",)
    if not os.path.exists(devices[0]):
        pytest.skip("this machine has no further device file")
    text = await bench.shell(pod, f"ls {devices[0]}; ls /sys/bus", devices=devices)
    assert text.split() == [devices[0], "pci"]
