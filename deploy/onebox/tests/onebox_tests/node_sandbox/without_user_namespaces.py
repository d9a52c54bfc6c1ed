"""Run a command as an ordinary user on what looks like a machine without user namespaces.

Its calls cannot be answered by others either, so that nothing is left to make pods of.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onebox.node import syscalls
from onebox.testing.plain_container import refuse_seccomp


def main() -> None:
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    refuse_seccomp()
    # The exec takes the new namespace's rights away, for this is not its root.
    os.execv(sys.argv[1], sys.argv[1:])


main()
