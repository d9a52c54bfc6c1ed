"""From a pod of the API to the specs that the sandbox runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onebox.node.client import Json
from onebox.node.environment import ConfigError
from onebox.node.expansion import expand
from onebox.node.spec import ContainerSpec, ImageEnv, Mount, PodSpec
from onebox.node.volumes import Owner
from onebox.quantity import cpu_millicores, memory_bytes

DEFAULT_UID = 1000
DEFAULT_GID = 100
CLUSTER_DOMAIN = "cluster.local"
DEFAULT_TERMINATION_PATH = "/dev/termination-log"


class CreateError(Exception):
    """A container cannot be created from this spec; shown as CreateContainerError."""


@dataclass(frozen=True)
class Prepared:
    """What was resolved for one start of one container."""

    image: ImageEnv
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    log_path: str
    devices: tuple[str, ...] = ()


def pod_spec(pod: Json) -> PodSpec:
    """Describe the pod's sandbox."""
    meta, spec = pod["metadata"], pod["spec"]
    namespace = meta["namespace"]
    subdomain = spec.get("subdomain")
    domain = f"{subdomain}.{namespace}.svc.{CLUSTER_DOMAIN}" if subdomain else None
    return PodSpec(
        uid=meta["uid"],
        namespace=namespace,
        name=meta["name"],
        hostname=hostname(pod),
        domain=domain,
        dns_search=_search_domains(spec, namespace),
        fs_gid=(spec.get("securityContext") or {}).get("fsGroup"),
        host_aliases=tuple(
            (alias["ip"], name)
            for alias in spec.get("hostAliases") or []
            for name in alias.get("hostnames") or []
        ),
    )


def hostname(pod: Json) -> str:
    """Give the pod's hostname: its own field, else its name, cut to what Linux allows."""
    wanted = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(wanted)[:63].rstrip("-.")


def _search_domains(spec: Json, namespace: str) -> tuple[str, ...]:
    own = (f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN)
    extra = tuple((spec.get("dnsConfig") or {}).get("searches") or ())
    return extra if spec.get("dnsPolicy") == "None" else own + extra


def pod_owner(pod: Json) -> Owner:
    """Tell who should own the files that the node writes for this pod."""
    context = pod["spec"].get("securityContext") or {}
    first = pod["spec"]["containers"][0].get("securityContext") or {}
    uid = first.get("runAsUser", context.get("runAsUser"))
    fs_gid = context.get("fsGroup")
    gid = fs_gid if fs_gid is not None else first.get("runAsGroup", context.get("runAsGroup"))
    return Owner(
        uid=DEFAULT_UID if uid is None else int(uid),
        gid=DEFAULT_GID if gid is None else int(gid),
        has_fs_group=fs_gid is not None,
    )


def container_spec(pod: Json, container: Json, prepared: Prepared) -> ContainerSpec:
    """Build the spec of one start of one container.

    Raises:
        CreateError: no command, or a user that this node does not give.
        ConfigError: runAsNonRoot contradicts runAsUser.
    """
    context = {
        **(pod["spec"].get("securityContext") or {}),
        **(container.get("securityContext") or {}),
    }
    _check_user(context, pod, container)
    limits, requests = _resources(container)
    return ContainerSpec(
        name=container["name"],
        argv=_argv(container, prepared.environment),
        env=prepared.environment,
        image=prepared.image,
        log_path=prepared.log_path,
        cwd=container.get("workingDir") or "",
        mounts=prepared.mounts,
        run_as_uid=context.get("runAsUser"),
        run_as_gid=context.get("runAsGroup"),
        groups=tuple(context.get("supplementalGroups") or ()),
        memory_bytes=memory_bytes(str(limits["memory"])) if "memory" in limits else None,
        cpu_millicores=cpu_millicores(str(limits["cpu"])) if "cpu" in limits else None,
        cpu_shares_millicores=cpu_millicores(str(requests.get("cpu", limits.get("cpu", 0)))),
        termination_message_path=container.get("terminationMessagePath")
        or DEFAULT_TERMINATION_PATH,
        read_only_root=bool(context.get("readOnlyRootFilesystem")),
        devices=prepared.devices,
    )


def _argv(container: Json, environment: Mapping[str, str]) -> tuple[str, ...]:
    command = container.get("command") or []
    if not command:
        raise CreateError(
            f'no command specified: image "{container.get("image", "")}" has no program of its '
            "own here; give the container a command"
        )
    words = [*command, *(container.get("args") or [])]
    return tuple(expand(word, environment) for word in words)


def _check_user(context: Json, pod: Json, container: Json) -> None:
    if context.get("runAsUser") != 0:
        return
    meta = pod["metadata"]
    if context.get("runAsNonRoot"):
        where = f'pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: '
        raise ConfigError(
            f"container's runAsUser breaks non-root policy ({where}{container['name']})"
        )
    raise CreateError("runAsUser 0 is not offered: containers of this node never run as root")


def _resources(container: Json) -> tuple[Json, Json]:
    resources = container.get("resources") or {}
    return resources.get("limits") or {}, resources.get("requests") or {}
