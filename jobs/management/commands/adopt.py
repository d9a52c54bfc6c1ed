"""`manage.py adopt`: what of Homeport's in the cluster no row knows, and the way back into the database."""

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError

from jobs.models import Workload
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, CredentialsError
from portal.web.format import bytes_text
from tenants.models import Tenant
from tenants.namespaces.adopting import (
    LostNamespace,
    Object,
    adopt,
    find_lost,
    find_person,
    is_ours,
    owner_of,
)

_KINDS = (
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Job",
    "Deployment",
    "Service",
)


class Command(BaseCommand):
    """It reads the cluster by the account of the reconciler, and changes rows; roots only if told to."""

    help = (
        "List namespaces, volumes, claims, roots and Services in the cluster that no row knows; "
        "take namespaces over."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("namespaces", nargs="*", help="only these; all that can be, by default")
        parser.add_argument(
            "--yes", action="store_true", help="make person, tenant and volumes of each namespace"
        )
        parser.add_argument(
            "--from",
            action="append",
            default=[],
            dest="portals",
            metavar="URL",
            help="POD_PORTAL_URL of an installation that is no more, whose namespaces are meant too",
        )
        parser.add_argument(
            "--delete-roots",
            action="store_true",
            help="end trainings, notebooks and TensorBoards that no row knows, after a question",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # Before the rows are read: what is made meanwhile has its row first.
            seen = asyncio.run(_look())
            self._tell(seen, options)
        except (ClusterError, CredentialsError) as error:
            raise CommandError(f"The cluster cannot be read or changed: {error}") from error

    def _tell(self, seen: dict[str, list[Object]], options: dict[str, Any]) -> None:
        chosen = options["namespaces"]
        lost = find_lost(seen["Namespace"], chosen=chosen, portals=options["portals"])
        if strange := sorted(set(chosen) - {one.name for one in lost}):
            raise CommandError(
                f"{', '.join(strange)}: no namespace of Homeport's that no row knows has this name."
            )
        wanted = [one for one in lost if not chosen or one.name in chosen]
        self._list("Namespaces that no row knows", [_line(one) for one in lost])
        if options["yes"]:
            for one in wanted:
                self._adopt(one)
        self._list("Volumes that no row knows", _unknown_volumes(seen, _known()))
        self._list("Claims that no row knows", _unknown_claims(seen, _known()))
        roots = _orphans(seen, "Job", "Deployment")
        lines = [_root(root) + _ports(_services_of(root, seen)) for root in roots]
        self._list("Trainings, notebooks and TensorBoards that no row knows", lines)
        services = [_root(one) + _ports([one]) for one in _orphans(seen, "Service")]
        self._list("Services without a root that no row knows", services)
        if options["delete_roots"]:
            known = {
                one["metadata"]["name"] for one in seen["Namespace"] if owner_of(one) in _known()
            }
            # Not of another installation, and not of a namespace that is still to be adopted.
            self._delete([root for root in roots if root["metadata"]["namespace"] in known])
        if not options["yes"] and any(not one.problem for one in lost):
            self.stdout.write("Nothing was adopted. With --yes those are that can be.")
        if chosen and any(one.problem for one in wanted):
            raise CommandError("not all of them can be adopted; see above")

    def _list(self, title: str, lines: Any) -> None:
        found = list(lines)
        self.stdout.write(f"{title}: {len(found)}")
        for line in found:
            self.stdout.write(f"  {line}")

    def _adopt(self, lost: LostNamespace) -> None:
        if lost.problem:
            return
        try:
            tenant = adopt(lost)
        except IntegrityError as error:
            raise CommandError(
                f"{lost.name} was not adopted, as somebody changed what it needs meanwhile "
                f"({error}); do it again."
            ) from error
        self.stdout.write(f"Adopted {lost.name} of {tenant.owner.username}.")

    def _delete(self, roots: list[Object]) -> None:
        if not roots:
            self.stdout.write("There is no root to delete in a namespace that the database knows.")
            return
        self.stdout.write(
            f"{len(roots)} will end, with their pods; files on volumes stay. "
            f"Type {len(roots)} to delete them: "
        )
        try:
            typed = input()
        except EOFError:
            typed = ""
        if typed.strip() != str(len(roots)):
            raise CommandError("No root was deleted.")
        asyncio.run(_remove(roots))
        self.stdout.write(f"Deleted {len(roots)}.")


async def _look() -> dict[str, list[Object]]:
    cluster = await Cluster.connect(settings.KUBECONFIG)
    try:
        return {kind: await cluster.list(kind) for kind in _KINDS}
    finally:
        await cluster.close()


async def _remove(roots: list[Object]) -> None:
    cluster = await Cluster.connect(settings.KUBECONFIG)
    try:
        for root in roots:
            meta = root["metadata"]
            await cluster.delete(root["kind"], meta["namespace"], meta["name"], uid=meta["uid"])
    finally:
        await cluster.close()


def _known() -> set[str]:
    return {str(pk) for pk in Tenant.objects.values_list("pk", flat=True)}


def _line(lost: LostNamespace) -> str:
    if lost.found is None:
        return f"{lost.name}: cannot be adopted: {lost.problem}."
    found = lost.found
    person = find_person(found)
    whose = f"{person.username}, who is known" if person else f"{found.user.username}, who is new"
    sizes = f"data {bytes_text(found.data_volume_bytes)}, log {bytes_text(found.log_volume_bytes)}"
    refused = f": cannot be adopted: {lost.problem}." if lost.problem else ""
    return f"{lost.name}  of {whose}; {sizes}{refused}"


def _owners(seen: dict[str, list[Object]]) -> dict[str, str]:
    """Name of each namespace of Homeport's -> its tenant's id."""
    return {one["metadata"]["name"]: owner_of(one) for one in seen["Namespace"] if is_ours(one)}


def _unknown_volumes(seen: dict[str, list[Object]], known: set[str]) -> list[str]:
    """In words, those that a namespace of Homeport's claims, or that a purge has left."""
    owners = _owners(seen)
    found = []
    for volume in seen["PersistentVolume"]:
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        owner = owners.get(claim.get("namespace", ""), owner_of(volume))
        if owner and owner not in known:
            size = (volume["spec"].get("capacity") or {}).get("storage", "?")
            claimed = f"{claim.get('name')} of {claim.get('namespace')}"
            found.append(f"{volume['metadata']['name']}  {size}, {claimed}")
    return sorted(found)


def _unknown_claims(seen: dict[str, list[Object]], known: set[str]) -> list[str]:
    """In words, those that Homeport made for somebody, and all others of a namespace that it made."""
    owners = _owners(seen)
    found = []
    for claim in seen["PersistentVolumeClaim"]:
        meta, spec = claim["metadata"], claim.get("spec") or {}
        owner = owner_of(claim) if is_ours(claim) else owners.get(meta["namespace"], "")
        if owner and owner not in known and not meta.get("ownerReferences"):
            volume = spec.get("volumeName")
            phase = (claim.get("status") or {}).get("phase", "?")
            state = f"of volume {volume}" if phase == "Bound" else f"without a volume, {phase}"
            found.append(f"{meta['namespace']}  {meta['name']}, {state}")
    return sorted(found)


def _orphans(seen: dict[str, list[Object]], *kinds: str) -> list[Object]:
    """Of workloads, what goes with nothing else; what they own goes with them."""
    rows = {str(pk) for pk in Workload.objects.values_list("pk", flat=True)}
    found = [
        thing
        for kind in kinds
        for thing in seen[kind]
        if is_ours(thing)
        and owner_of(thing) not in rows
        and not thing["metadata"].get("ownerReferences")
    ]
    return sorted(found, key=_root)


def _root(root: Object) -> str:
    meta = root["metadata"]
    return f"{meta['namespace']}  {root['kind']} {meta['name']}, since {meta['creationTimestamp']}"


def _services_of(root: Object, seen: dict[str, list[Object]]) -> list[Object]:
    uid = root["metadata"]["uid"]
    return [
        one
        for one in seen["Service"]
        if uid in [owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()]
    ]


def _ports(services: list[Object]) -> str:
    """In words, the ports of nodes that they hold; empty: none."""
    ports = [port for one in services for port in (one.get("spec") or {}).get("ports") or ()]
    held = sorted(port["nodePort"] for port in ports if port.get("nodePort"))
    return f", NodePort {' and '.join(map(str, held))}" if held else ""
