"""What deploy/kubernetes renders is what Homeport reads, and holds what docs/cluster.md says of it."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster import rights
from jobs.kinds.manifests import pod_settings
from portal.catalog import get_catalog
from portal.environment import SETTINGS
from tests.tools.kubectls import NoKubectlError, kubectl_in_path
from tests.tools.manifests import Object, blocks, checkout, kustomize, objects, pods, run

KNOWN = {setting.name for setting in SETTINGS}
SMALL = "deploy/kubernetes/overlays/small"
SMALL_FILES = ("site.env", "secret.env", "tls.crt", "tls.key")
OURS = ("web", "reconciler", "migrate")
# Read by the images of PostgreSQL, Redis and the provisioner, as their pages say.
OF_OTHERS = {
    "StatefulSet/postgres": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGDATA"},
    "StatefulSet/redis": {"REDIS_PASSWORD"},
    "Deployment/folders": {
        *("PROVISIONER_NAME", "SERVICE_ACCOUNT_NAME", "CONFIG_MOUNT_PATH", "POD_NAMESPACE"),
    },
}


def site(folder: Path) -> Path:
    """The overlay `small` with the files that the page writes."""
    checkout(folder)
    for command in blocks("Small: one node")[:3]:
        run(folder, command)
    return folder / SMALL


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def documents(small: Path) -> list[Object]:
    return objects(small)


def named(documents: list[Object], kind: str, name: str) -> Object:
    pattern = re.compile(rf"{name}(-[a-z0-9]{{10}})?")
    [found] = [
        one
        for one in documents
        if one["kind"] == kind and pattern.fullmatch(one["metadata"]["name"])
    ]
    return found


def values(documents: list[Object], kind: str, name: str) -> dict[str, str]:
    return dict(named(documents, kind, name)["data"])


def test_accounts_and_policies_are_those_of_deploy_cluster(documents: list[Object]) -> None:
    def said(document: Object) -> str:
        # kustomize writes some folded lines with one more break between them.
        return re.sub(r"(\\n)+", r"\\n", json.dumps(document, sort_keys=True))

    installed = {said(document) for document in documents}
    for document in rights.documents():
        assert said(document) in installed, document["metadata"]["name"]


def test_every_setting_is_one_of_homeport(documents: list[Object]) -> None:
    shared = values(documents, "ConfigMap", "homeport") | values(documents, "Secret", "homeport")
    assert set(shared) <= KNOWN
    assert set(values(documents, "Secret", "migrate")) <= KNOWN
    for owner, pod in pods(documents).items():
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            given = {one["name"] for one in container.get("env", ())}
            assert given <= (KNOWN if owner.split("/")[1] in OURS else OF_OTHERS[owner]), owner
            sources = [str(one) for one in container.get("envFrom", ())]
            assert not sources or owner.split("/")[1] in OURS


def test_ports_addresses_and_labels_agree(documents: list[Object]) -> None:
    shared = values(documents, "ConfigMap", "homeport")
    web = pods(documents)["Deployment/web"]["containers"][0]
    ports = {one["name"]: str(one["containerPort"]) for one in web["ports"]}
    assert ports == {
        "http": shared["PORT"],
        "pods": shared["POD_PORT"],
        "metrics": shared["METRICS_PORT"],
    }
    door = named(documents, "Service", "homeport-pods")
    [port] = door["spec"]["ports"]
    host = f"{door['metadata']['name']}.{door['metadata']['namespace']}.svc"
    assert shared["POD_PORTAL_URL"] == f"http://{host}:{port['port']}"
    selector = ",".join(f"{key}={value}" for key, value in door["spec"]["selector"].items())
    assert sorted(shared["POD_PORTAL_SELECTOR"].split(",")) == sorted(selector.split(","))
    grace_s = pods(documents)["Deployment/web"]["terminationGracePeriodSeconds"]
    assert grace_s >= int(shared["DRAIN_S"]) + 30
    storage = named(documents, "StorageClass", shared["STORAGE_CLASS"])
    assert storage["reclaimPolicy"] == "Retain"


def test_containers_are_hardened_and_say_what_they_take(documents: list[Object]) -> None:
    for owner, pod in pods(documents).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, owner
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        assert "hostPath" not in str(pod["volumes"])
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}, owner
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), owner
            assert "memory" in container["resources"]["limits"]
            mounts = {one["mountPath"] for one in container["volumeMounts"]}
            if owner.split("/")[1] in OURS:
                assert {"/tmp", "/var/lib/homeport"} <= mounts
    tokens = {
        owner for owner, pod in pods(documents).items() if pod["automountServiceAccountToken"]
    }
    assert tokens == {"Deployment/web", "Deployment/reconciler", "Deployment/folders"}
    purge = [owner for owner, pod in pods(documents).items() if "purge-token" in str(pod)]
    assert purge == ["Deployment/reconciler"]


def test_policies_are_the_table_of_the_page(documents: list[Object]) -> None:
    policies = [one for one in documents if one["kind"] == "NetworkPolicy"]
    assert {one["metadata"]["namespace"] for one in policies} == {"homeport"}
    closed = named(documents, "NetworkPolicy", "closed")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    # From namespaces, people's alone come in, and by POD_PORT alone.
    rules = [rule for one in policies for rule in one["spec"].get("ingress", ())]
    from_namespaces = [rule for rule in rules if "namespaceSelector" in str(rule)]
    [rule] = from_namespaces
    exists = {"matchExpressions": [{"key": "homeport.dev/owner", "operator": "Exists"}]}
    assert rule == {
        "from": [{"namespaceSelector": exists}],
        "ports": [{"protocol": "TCP", "port": 8001}],
    }
    # Ports by number: many plugins find no names (tenants/manifests.py).
    every = [*rules, *(rule for one in policies for rule in one["spec"].get("egress", ()))]
    ports = [port["port"] for rule in every for port in rule["ports"]]
    assert all(isinstance(port, int) for port in ports)
    assert all(rule.get("from", True) for rule in rules)
    settings = values(documents, "ConfigMap", "homeport")
    people = named(documents, "NetworkPolicy", "people")["spec"]["ingress"][0]
    assert people["from"] == [
        {"ipBlock": {"cidr": settings["CLIENT_CIDRS"]}},
        {"ipBlock": {"cidr": settings["NODE_CIDRS"]}},
    ]
    outside = named(documents, "NetworkPolicy", "outside")["spec"]["egress"][0]["to"]
    assert outside == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.42.0.0/16"]}}]


def test_one_line_names_the_image_of_homeport(documents: list[Object]) -> None:
    image = values(documents, "ConfigMap", "homeport")["PORTAL_IMAGE"]
    assert image == "registry.example/homeport:0.1.0"
    used = {pods(documents)[owner]["containers"][0]["image"] for owner in pods(documents)}
    folders = values(documents, "ConfigMap", "folders")["helperPod.yaml"]
    assert f'image: "{image}"' in folders
    assert {one for one in used if "homeport" in one} == {image}
    [migrate] = [one for one in documents if one["kind"] == "Job"]
    assert migrate["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_it_is_the_image_of_peoples_pods_too(settings: Any) -> None:
    assert pod_settings().portal_image == get_catalog().portal_image
    settings.PORTAL_IMAGE = "registry.example/homeport:1"
    assert pod_settings().portal_image == "registry.example/homeport:1"


def test_what_changes_has_another_name_and_a_job_changes_with_its_image_alone(
    tmp_path: Path, small: Path, documents: list[Object]
) -> None:
    def names(documents: list[Object]) -> dict[str, str]:
        kept = {"ConfigMap/homeport", "Secret/homeport", "Secret/homeport-tls", "Job/migrate"}
        found = {
            re.sub(r"-[a-z0-9]{10}$", "", f"{one['kind']}/{one['metadata']['name']}"): one[
                "metadata"
            ]["name"]
            for one in documents
        }
        return {key: found[key] for key in kept}

    before = names(documents)
    shutil.copytree(small.parents[3], tmp_path, dirs_exist_ok=True)
    overlay = tmp_path / SMALL
    for file, old, new, changed in (
        (
            "site.env",
            "CLIENT_CIDRS=192.168.1.0/24",
            "CLIENT_CIDRS=10.0.0.0/8",
            "ConfigMap/homeport",
        ),
        ("secret.env", "homeport:", "homeport:x", "Secret/homeport"),
        ("tls.crt", "\n", "\n\n", "Secret/homeport-tls"),
    ):
        path = overlay / file
        path.write_text(path.read_text().replace(old, new))
        after = names(objects(overlay))
        assert {key for key in after if after[key] != before[key]} == {changed}
        before = after
    path = overlay / "site.env"
    path.write_text(path.read_text().replace("homeport:0.1.0", "homeport:0.2.0"))
    after = names(objects(overlay))
    assert {key for key in after if after[key] != before[key]} == {
        "ConfigMap/homeport",
        "Job/migrate",
    }


def test_another_kubectl_renders_the_same(small: Path, documents: list[Object]) -> None:
    try:
        other = kubectl_in_path()
    except NoKubectlError as error:
        pytest.skip(str(error))
    assert objects(small, other) == documents


@pytest.mark.parametrize("file", SMALL_FILES)
def test_without_a_file_of_the_site_nothing_is_rendered(
    tmp_path: Path, small: Path, file: str
) -> None:
    shutil.copytree(small.parents[3], tmp_path, dirs_exist_ok=True)
    (tmp_path / SMALL / file).unlink()
    said = kustomize(tmp_path / SMALL)
    assert not said.is_done
    assert file in said.errors


def test_two_installations_share_no_secret(
    tmp_path: Path, small: Path, documents: list[Object]
) -> None:
    other = objects(site(tmp_path))

    def secrets(documents: list[Object]) -> set[str]:
        found = {
            base64.b64decode(value).decode()
            for one in documents
            if one["kind"] == "Secret"
            for key, value in one.get("data", {}).items()
        }
        assert len(found) == 7  # of four Secrets; the cluster fills in the fifth
        return found

    assert not secrets(documents) & secrets(other)
    key = base64.b64decode(values(documents, "Secret", "homeport")["HOMEPORT_SECRET_KEY"])
    assert len(key) >= 50
    # Written once: typed again, the page's commands leave them as they are.
    before = (small / "secret.env").read_bytes()
    for command in blocks("Small: one node")[1:3]:
        run(small.parents[3], command)
    assert (small / "secret.env").read_bytes() == before
    assert (small / "secret.env").stat().st_mode & 0o077 == 0


def test_the_provisioner_has_these_rights_and_no_other(documents: list[Object]) -> None:
    roles = [
        one
        for one in documents
        if one["kind"] in {"Role", "ClusterRole"} and "folders" in one["metadata"]["name"]
    ]
    found = {
        (one["kind"], resource, verb)
        for one in roles
        for rule in one["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    writes = {one for one in found if one[2] not in {"get", "list", "watch"}}
    change = {"create", "patch", "update", "delete"}
    assert writes == {
        *(("Role", "pods", verb) for verb in change),
        *(("ClusterRole", "persistentvolumes", verb) for verb in change),
        *(("ClusterRole", "events", verb) for verb in ("create", "patch")),
    }
    assert not any(resource in {"secrets", "*"} for _, resource, _ in found)
    privileged = [
        one["metadata"]["name"]
        for one in documents
        if one["kind"] == "Namespace" and "privileged" in str(one["metadata"]["labels"])
    ]
    assert privileged == ["homeport-storage"]
