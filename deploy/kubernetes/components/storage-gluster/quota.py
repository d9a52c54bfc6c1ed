"""Gives each claim's folder on GlusterFS the size that was asked for, as a quota of the volume.

    kubectl get pv -o json | python3 quota.py VOLUME

on a server of the volume, now and then (cron). It is a brake and no wall: GlusterFS looks at what a folder
holds once a second, so one fast write goes some megabytes too far; then writes fail with "Disk quota
exceeded", and statvfs in the pod shows the claim's size and what is left of it. Sizes are never lowered below
what a claim says. https://docs.gluster.org/en/latest/Administrator-Guide/Directory-Quota/
"""

import json
import re
import subprocess
import sys

MOUNT = "/var/lib/homeport/gluster"
_UNITS = {"": 1, "m": 1e-3}
_UNITS |= {unit: 1000**power for power, unit in enumerate("kMGTPE", 1)}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}
_SETTINGS = (
    ("quota", "{volume}", "enable"),
    ("quota", "{volume}", "soft-timeout", "1s"),
    ("quota", "{volume}", "hard-timeout", "1s"),
    ("set", "{volume}", "features.quota-deem-statfs", "on"),
)


def bytes_of(quantity: str) -> int:
    """Of a quantity as Kubernetes writes it, such as 10Gi.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([mkKMGTPE]?i?)", quantity)
    if not found or found[2] not in _UNITS:
        raise ValueError(f"{quantity!r} is no quantity")
    return int(float(found[1]) * _UNITS[found[2]])


def limits(listed: "dict[str, list[dict[str, dict[str, dict[str, str]]]]]") -> "dict[str, int]":
    """Folder on the volume -> bytes, of all PersistentVolumes that lie on it."""
    found = {}
    for volume in listed["items"]:
        folder = volume["spec"].get("hostPath", {}).get("path", "")
        if folder.startswith(f"{MOUNT}/"):
            found[folder.removeprefix(MOUNT)] = bytes_of(volume["spec"]["capacity"]["storage"])
    return found


def main() -> None:
    [name] = sys.argv[1:]

    def gluster(*words: str) -> "subprocess.CompletedProcess[str]":
        command = ["gluster", "--mode=script", "volume", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    wanted = limits(json.load(sys.stdin))
    is_on = gluster("quota", name, "list").returncode == 0
    for words in _SETTINGS[1:] if is_on else _SETTINGS:  # what is on already is refused
        done = gluster(*(word.format(volume=name) for word in words))
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    failed = False
    for folder, size in sorted(wanted.items()):
        done = gluster("quota", name, "limit-usage", folder, str(size))
        failed |= done.returncode != 0
        print(f"{folder}: {done.stderr if done.returncode else f'{size} bytes'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
