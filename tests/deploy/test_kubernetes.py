"""What deploy/kubernetes renders is what Homeport reads, and holds what docs/cluster.md says of it."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cluster import rights
from jobs.kinds.manifests import pod_settings
from portal.catalog import get_catalog
from portal.environment.table import SETTINGS
from tests.deploy.sites import COMPONENTS, OVERLAYS, SMALL, site, with_component
from tests.portal.programs import program
from tests.tools.kubectls import NoKubectlError, current_kubectl, kubectl_in_path
from tests.tools.manifests import ROOT, Object, blocks, kustomize, objects, pods, run

KNOWN = {setting.name for setting in SETTINGS}
# Read by OpenSSL, libpq, boto3 and requests.
OF_LIBRARIES = {
    *("SSL_CERT_FILE", "PGSSLROOTCERT", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
}
# By the component, also where the site names another.
CLASSES = {
    "storage-existing": "shared",
    "storage-gluster": "glusterfs",
    "storage-nfs": "homeport-nfs",
    "storage-static": "homeport-static",
}
SMALL_FILES = ("site.env", "secret.env", "tls.crt", "tls.key")
OURS = ("web", "reconciler", "migrate", "backup")
# Read by the images of PostgreSQL, Redis and the provisioner, as their pages say.
OF_OTHERS = {
    "StatefulSet/postgres": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PGDATA"},
    "StatefulSet/redis": {"REDIS_PASSWORD"},
    # Of the command line.
    "CronJob/doctor": {
        *("HOMEPORT_URL", "HOMEPORT_TOKEN", "HOMEPORT_CA_FILE", "PORTAL_IMAGE", "SSL_CERT_FILE"),
    },
    "Deployment/folders": {
        *("PROVISIONER_NAME", "SERVICE_ACCOUNT_NAME", "CONFIG_MOUNT_PATH", "POD_NAMESPACE"),
    },
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def documents(small: Path) -> list[Object]:
    return objects(small)


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site(tmp_path_factory.mktemp("production"), "production")


@pytest.fixture(scope="module", params=OVERLAYS)
def either(request: pytest.FixtureRequest, small: Path, production: Path) -> list[Object]:
    """The objects of each overlay."""
    return objects(small if request.param == "small" else production)


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


def test_accounts_and_policies_are_those_of_deploy_cluster(either: list[Object]) -> None:
    documents = either

    def said(document: Object) -> str:
        # kustomize writes some folded lines with one more break between them.
        return re.sub(r"(\\n)+", r"\\n", json.dumps(document, sort_keys=True))

    installed = {said(document) for document in documents}
    for document in rights.documents():
        assert said(document) in installed, document["metadata"]["name"]


def test_every_setting_is_one_of_homeport(either: list[Object]) -> None:
    documents = either
    shared = values(documents, "ConfigMap", "homeport") | values(documents, "Secret", "homeport")
    known = KNOWN | OF_LIBRARIES
    assert set(shared) <= known
    assert set(values(documents, "Secret", "migrate")) <= known
    for owner, pod in pods(documents).items():
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            given = {one["name"] for one in container.get("env", ())}
            if container["name"] == "dump":
                assert given <= {"DATABASE_URL", "PGSSLROOTCERT"}
                continue
            assert given <= (known if owner.split("/")[1] in OURS else OF_OTHERS[owner]), owner
            sources = [str(one) for one in container.get("envFrom", ())]
            assert not sources or owner.split("/")[1] in OURS


def test_ports_addresses_and_labels_agree(either: list[Object]) -> None:
    documents = either
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


def test_containers_are_hardened_and_say_what_they_take(either: list[Object]) -> None:
    documents = either
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
            if container["name"] in OURS:
                assert {"/tmp", "/var/lib/homeport"} <= mounts
    tokens = {
        owner for owner, pod in pods(documents).items() if pod["automountServiceAccountToken"]
    }
    ours = {"Deployment/web", "Deployment/reconciler", "CronJob/doctor"}
    assert tokens - {"Deployment/folders"} == ours
    purge = [owner for owner, pod in pods(documents).items() if "purge-token" in str(pod)]
    assert purge == ["Deployment/reconciler"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_with_these_settings_nothing_is_unsafe(
    overlay: str, small: Path, production: Path, tmp_path: Path
) -> None:
    folder = small if overlay == "small" else production
    rendered = objects(folder)
    secrets = values(rendered, "Secret", "homeport")
    given = {name: base64.b64decode(text).decode() for name, text in secrets.items()}
    given |= values(rendered, "ConfigMap", "homeport")
    # Where the files of the volumes are here.
    own = {"tls.crt": folder / "tls.crt", "tls.key": folder / "tls.key"}
    if overlay == "production":
        own = {"tls.crt": folder / "gate.crt", "tls.key": folder / "gate.key"}
    own["authorities.pem"] = folder / "authorities.pem"
    for name, text in given.items():
        if text.startswith("/run/homeport/"):
            given[name] = str(own[Path(text).name])
    said = program(tmp_path, "manage.py", "check", "--deploy", KUBERNETES_SERVICE_HOST="x", **given)
    assert "System check identified no issues" in said.stdout, said.stderr + said.stdout


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
    assert image == "registry.example/homeport:0.2.0"
    used = {pods(documents)[owner]["containers"][0]["image"] for owner in pods(documents)}
    folders = values(documents, "ConfigMap", "folders")["helperPod.yaml"]
    assert f"image: {pods(documents)['Deployment/folders']['containers'][0]['image']}\n" in folders
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
    path.write_text(path.read_text().replace("homeport:0.2.0", "homeport:0.3.0"))
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


def test_the_class_of_small_keeps_what_is_released(documents: list[Object]) -> None:
    name = values(documents, "ConfigMap", "homeport")["STORAGE_CLASS"]
    assert named(documents, "StorageClass", name)["reclaimPolicy"] == "Retain"


def test_production_has_two_of_each_and_small_keeps_none_from_being_drained(
    documents: list[Object], production: Path
) -> None:
    assert not [one for one in documents if one["kind"] == "PodDisruptionBudget"]
    assert "affinity" not in str(pods(documents)).lower()
    rendered = objects(production)
    for name in ("web", "reconciler"):
        deployment = named(rendered, "Deployment", name)["spec"]
        assert deployment["replicas"] == 2
        budget = named(rendered, "PodDisruptionBudget", name)["spec"]
        assert budget["minAvailable"] == 1
        assert budget["selector"] == deployment["selector"]
        spread = deployment["template"]["spec"]["topologySpreadConstraints"][0]
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
        [container] = deployment["template"]["spec"]["containers"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        pem = values(rendered, "ConfigMap", "homeport")["POD_AUTHORITIES_FILE"]
        assert pem == f"{mounts['authorities']}/authorities.pem"
    ingress = named(rendered, "Ingress", "homeport")["spec"]
    assert ingress["rules"][0]["host"] == ingress["tls"][0]["hosts"][0] == "homeport.lab.example"


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_adds_to_an_overlay(production: Path, component: str) -> None:
    before = {str(one["metadata"]) for one in objects(production)}
    rendered = objects(with_component(production.parents[3], component))
    settings = values(rendered, "ConfigMap", "homeport")
    assert set(settings) <= KNOWN | OF_LIBRARIES
    added = [one for one in rendered if str(one["metadata"]) not in before]
    if component == "pull-secret":
        assert all(pod["imagePullSecrets"] == [{"name": "pull"}] for pod in pods(rendered).values())
        reconciler = pods(rendered)["Deployment/reconciler"]
        [mount] = [m for m in reconciler["containers"][0]["volumeMounts"] if m["name"] == "pull"]
        [[key, _]] = values(rendered, "Secret", "pull").items()
        assert settings["PORTAL_PULL_SECRET_FILE"] == f"{mount['mountPath']}/{key}"
    elif component in CLASSES:
        assert settings["STORAGE_CLASS"] == CLASSES[component]
    else:
        assert all(one["metadata"]["namespace"] == "homeport" for one in added)
        [policy] = [one for one in added if one["kind"] == "NetworkPolicy"]
        [rule] = policy["spec"]["ingress"]
        assert rule["from"] != [{}]
        assert len(rule["ports"]) == 1
    if component == "gateway-api":
        route = named(rendered, "HTTPRoute", "homeport")
        assert route["spec"]["hostnames"] == ["homeport.lab.example"]
        assert "Ingress" not in {one["kind"] for one in rendered}


def test_what_storage_may_do_beyond_other_pods_is_this(tmp_path: Path) -> None:
    """Users, capabilities, folders of nodes, and what both accounts may change."""
    overlay = site(tmp_path, "production")
    file = overlay / "kustomization.yaml"
    listed = "  - ../../components/ingress\n"
    file.write_text(
        file.read_text().replace(listed, f"{listed}  - ../../components/storage-gluster\n")
    )
    rendered = objects(overlay)
    assert (
        values(rendered, "ConfigMap", "homeport")["NODE_SELECTOR"] == "homeport.dev/gluster=ready"
    )
    guard = pods(rendered)["DaemonSet/gluster-guard"]
    [container] = guard["containers"]
    assert container["image"] == values(rendered, "ConfigMap", "homeport")["PORTAL_IMAGE"]
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["LINUX_IMMUTABLE"]},
    }
    folders = [one["hostPath"]["path"] for one in guard["volumes"] if "hostPath" in one]
    assert folders == ["/var/lib/homeport"]
    helper = yaml.safe_load(values(rendered, "ConfigMap", "folders")["helperPod.yaml"])["spec"]
    assert helper["nodeSelector"] == {"homeport.dev/gluster": "ready"}
    [container] = helper["containers"]
    added = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": added}
    changed = {
        (one["metadata"]["name"], resource)
        for one in rendered
        if one["kind"] in {"ClusterRole", "Role"}
        and one["metadata"]["name"] in {"folders", "homeport-folders", "homeport-gluster-guard"}
        for rule in one["rules"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert changed == {
        ("folders", "pods"),
        ("homeport-folders", "events"),
        ("homeport-folders", "persistentvolumes"),
        ("homeport-gluster-guard", "nodes"),
    }


def test_one_command_lists_every_image(documents: list[Object], small: Path) -> None:
    [command] = blocks("Images for a cluster without the internet")
    folder = small.parents[3]
    (folder / "portal").mkdir()
    shutil.copy(ROOT / "portal" / "catalog.yaml", folder / "portal")
    path = f"{Path(current_kubectl()).parent}:/usr/bin:/bin"
    listed = subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env={"PATH": path},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    catalog = get_catalog()
    people = {one.reference for one in (*catalog.images.offered, *catalog.notebooks.images.offered)}
    ours = {one["image"] for pod in pods(documents).values() for one in pod["containers"]}
    assert set(listed) == people | ours | {catalog.tensorboard.image}
    assert listed == sorted(set(listed))


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


def test_git_takes_none_of_what_the_page_writes(small: Path, production: Path) -> None:
    def git(*words: str) -> set[str]:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return set(done.stdout.splitlines())

    tracked = git("ls-files", "deploy/kubernetes/overlays")
    for overlay in (small, production):
        top = overlay.parents[3]
        files = {str(path.relative_to(top)) for path in overlay.iterdir() if path.is_file()}
        written = files - tracked
        assert written >= {f"{overlay.relative_to(top)}/{name}" for name in SMALL_FILES[:2]}
        assert git("check-ignore", *written) == written


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
