"""The proof, at the sandbox's start, that this machine can run pods; and words when it cannot.

Only a full trial is safe: some systems let namespaces be made and then refuse what they are for.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from onebox.node.cgroup import Cgroups
from onebox.node.interpreter import interpreter_mounts, real_interpreter
from onebox.node.pod import Pod
from onebox.node.spec import (
    ContainerSpec,
    Exit,
    ImageEnv,
    Limits,
    PodGone,
    PodSpec,
    SandboxUnavailable,
    StartError,
)

_TIMEOUT_S = 20.0
_PROGRAM = """
import json, os, socket
server = socket.socket()
server.bind(("0.0.0.0", 80))
server.listen()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
report = {
    "own_proc": os.readlink("/proc/self") == str(os.getpid()),
    "seccomp": status.get("Seccomp", "0").strip() == "2",
    "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
    "uid": os.getuid(),
}
open("/dev/termination-log", "w").write(json.dumps(report))
"""
_SWITCHES = {
    "kernel/unprivileged_userns_clone": (
        "0",
        (
            "unprivileged user namespaces are switched off; an administrator can switch them on "
            "with `sysctl -w kernel.unprivileged_userns_clone=1`, or run onebox as root"
        ),
    ),
    "user/max_user_namespaces": (
        "0",
        (
            "user namespaces are switched off; an administrator can switch them on with "
            "`sysctl -w user.max_user_namespaces=15000`, or run onebox as root"
        ),
    ),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        (
            "AppArmor takes the rights of unprivileged user namespaces away; an administrator can "
            "allow them with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, "
            "or run onebox as root"
        ),
    ),
}


async def run_trial(
    create_pod: Callable[[PodSpec], Awaitable[Pod]], folder: Path
) -> tuple[str, ...]:
    """Run a throw-away pod that mounts /proc, binds port 80, and looks at its own rights.

    Args:
        folder: for its log.

    Returns:
        Sentences about what is weaker than it could be.

    Raises:
        SandboxUnavailable: it does not work; in words.
    """
    is_root = os.getuid() == 0
    spec = PodSpec("trial", "kube-system", "trial", "trial")
    explain = functools.partial(explain_refusal, is_root=is_root)
    ended, output = await run_program(create_pod, folder, spec, _PROGRAM, explain)
    return judge(ended, output)


async def run_program(
    create_pod: Callable[[PodSpec], Awaitable[Pod]],
    folder: Path,
    spec: PodSpec,
    program: str,
    explain: Callable[[str, str], str],
) -> tuple[Exit, str]:
    """Run a Python program in a throw-away pod; return how it ended and its log.

    Args:
        explain: makes a sentence of a stage (pod, container, interpreter) and an error.

    Raises:
        SandboxUnavailable: it could not be run.
    """
    try:
        pod = await create_pod(spec)
    except (OSError, PodGone) as error:
        raise SandboxUnavailable(explain("pod", str(error))) from error
    log_path = folder / "trial.log"
    try:
        container = await pod.run(_trial_container(str(log_path), program))
        ended = await asyncio.wait_for(container.wait(), _TIMEOUT_S)
    except StartError as error:
        stage = "interpreter" if error.code in (126, 127) else "container"
        text = explain(stage, error.message)
        raise SandboxUnavailable(text, is_final=stage == "interpreter") from error
    except (TimeoutError, PodGone) as error:
        text = f"a throw-away pod did not end within {_TIMEOUT_S:.0f} s"
        raise SandboxUnavailable(text) from error
    finally:
        await pod.remove()
    return ended, log_path.read_text(errors="replace") if log_path.exists() else ""


def judge(ended: Exit, output: str) -> tuple[str, ...]:
    """Return what the trial's report admits of weaknesses.

    Raises:
        SandboxUnavailable: the throw-away pod failed, or kept rights that it must not have.
    """
    if ended.code != 0:
        last = output.strip().splitlines()[-1:] or ["it printed nothing"]
        text = f"a throw-away pod ended with code {ended.code}: {last[0]}"
        raise SandboxUnavailable(text)
    report = json.loads(ended.message)
    if report["capabilities"] or report["uid"] == 0:
        raise SandboxUnavailable("a throw-away pod kept rights of root; pods would not be isolated")
    notes = []
    if not report["own_proc"]:
        notes.append(
            "pods see the process list of this machine, because the engine that onebox itself runs "
            "in masks /proc"
        )
    if not report["seccomp"]:
        notes.append("system calls of pods are not filtered: this kernel has no seccomp")
    return tuple(notes)


def explain_refusal(stage: str, error: str, *, is_root: bool) -> str:
    """Return a sentence for people: why pods cannot run here, and what to do.

    Args:
        stage: what was tried: namespaces, network, pod, container, interpreter.
        error: what the kernel said.
    """
    if stage == "interpreter":
        return (
            f"Pods cannot run here: they cannot reach the Python at {real_interpreter()} ({error}). "
            "Use an interpreter that everybody may read, such as the system's python3."
        )
    if stage == "network":
        return (
            f"Pods cannot run here: the cluster network could not be made ({error}). The kernel "
            "needs bridges and veth links: `modprobe bridge veth` as root."
        )
    causes = [] if is_root else [text for text in map(_switch_text, _SWITCHES) if text]
    if causes:
        return f"Pods cannot run here: {causes[0]}. ({error})"
    if "Function not implemented" in error:
        release = os.uname().release
        return f"Pods cannot run here: Linux 5.12 or newer is needed, this is {release}. ({error})"
    if is_root:
        advice = (
            "root lacks CAP_SYS_ADMIN here, as inside a plain container; run onebox on the machine "
            "itself, or in a container started with --privileged"
        )
    else:
        advice = (
            "this kernel or the engine around it refuses user namespaces; run onebox on the machine "
            "itself, or as root"
        )
    return f"Pods cannot run here: {advice}. ({error})"


def describe_limits(cgroups: Cgroups | None) -> Limits:
    """Return what of the containers' limits is enforced with these control groups."""
    if cgroups is None:
        text = (
            "no control groups may be used here: memory limits are watched (a container over its "
            "limit is killed within moments; files in /tmp and in memory volumes are not counted); "
            "limits of CPU and processes are not enforced"
        )
        return Limits(memory="watched", cpu=False, pids=False, text=text)
    cpu, pids = "cpu" in cgroups.controllers, "pids" in cgroups.controllers
    missing = [name for name, present in (("CPU", cpu), ("processes", pids)) if not present]
    text = f"enforced by control groups (version {cgroups.version})"
    if missing:
        text += f"; limits of {' and '.join(missing)} are not enforced"
    return Limits(memory="cgroup", cpu=cpu, pids=pids, text=text)


def _switch_text(name: str) -> str:
    value, text = _SWITCHES[name]
    try:
        found = Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
    return text if found == value else ""


def _trial_container(log_path: str, program: str) -> ContainerSpec:
    image = ImageEnv("trial", "", {}, interpreter_mounts())
    argv = (real_interpreter(), "-I", "-S", "-c", program)
    return ContainerSpec(
        name="trial",
        argv=argv,
        env={},
        image=image,
        log_path=log_path,
        memory_bytes=256 << 20,
        cpu_millicores=1000,
    )
