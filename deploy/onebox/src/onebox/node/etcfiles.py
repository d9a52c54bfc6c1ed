"""The files of /etc that are written for each container: names, users, resolver. Pure text."""

from __future__ import annotations

from collections.abc import Iterable

from onebox.node.spec import GATEWAY_IP, PodSpec

_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"


def render_etc(pod: PodSpec, ip: str) -> dict[str, str]:
    """Return the files that all containers of a pod share, name -> text."""
    return {
        "hosts": _render_hosts(pod, ip),
        "hostname": f"{pod.hostname}\n",
        "resolv.conf": _render_resolver(pod.dns_search),
        "nsswitch.conf": _NSSWITCH,
    }


def render_users(uid: int, gid: int, groups: Iterable[int], home: str) -> dict[str, str]:
    """Return passwd and group for the user that a container runs as."""
    passwd = [f"user:x:{uid}:{gid}:user:{home}:/bin/sh", "root:x:0:0:root:/:/bin/sh"]
    if uid != 65534:
        passwd.append("nobody:x:65534:65534:nobody:/nonexistent:/bin/sh")
    named = {0: "root", gid: "users"}
    for number in groups:
        named.setdefault(number, f"group{number}")
    lines = [f"{name}:x:{number}:" for number, name in sorted(named.items())]
    return {"passwd": "\n".join(passwd) + "\n", "group": "\n".join(lines) + "\n"}


def _render_hosts(pod: PodSpec, ip: str) -> str:
    own = f"{pod.hostname}.{pod.domain} {pod.hostname}" if pod.domain else pod.hostname
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", f"{ip}\t{own}"]
    lines += [f"{alias_ip}\t{name}" for alias_ip, name in pod.host_aliases]
    return "\n".join(lines) + "\n"


def _render_resolver(search: Iterable[str]) -> str:
    domains = " ".join(search)
    lines = [f"nameserver {GATEWAY_IP}"]
    if domains:
        lines.append(f"search {domains}")
    # ndots:5 as in every cluster: "a.b" is tried inside the cluster first. Short waits, for the
    # server is on this machine: a lost packet must not cost five seconds.
    lines.append("options ndots:5 timeout:2 attempts:3")
    return "\n".join(lines) + "\n"
