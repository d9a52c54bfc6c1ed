"""The lanes of the tests: what each is, what it needs, and which command runs it, a row each (`tests.lane.Lane`).

A new test file in one of `FOLDERS` runs in `make test`, in the lane `unit`, without a line here, as
does one in `UPGRADE` that is not marked `e2e`. A file that takes too long for that gets a row in
`LATER`, with its seconds: then only `make test-all` runs it. A test file in another folder, or marked
`e2e` or `s3`, is in `make test-all`. What is marked `slow` is run by nobody but who asks for it.
"""

from collections.abc import Iterable, Mapping

from tests.lane import PYTHON, QUIET, TESTS, Lane, browser, database_servers, s3_server

FOLDERS = ("portal", "jobs", "tenants", "manifests", "recorded", "deploy", "repository")
UPGRADE = "upgrade"
# The embedded cluster's own, which know nothing of Homeport.
ONEBOX = "deploy/onebox/tests/onebox_tests"
OTHERS = sorted(
    {path.parent.name for path in TESTS.glob("*/__init__.py")}
    - {*FOLDERS, "contract", UPGRADE, "e2e", "image", "nodes"}
)

# Files of FOLDERS and UPGRADE that are left to `make test-all`, slowest first, with the seconds that each takes
# beside much other work. What decides (rules, engine, tenancy, who may call what) is never here.
LATER: Mapping[str, int] = {
    "tests/portal/server/test_slow_clients.py": 220,
    "tests/repository/test_cut_off.py": 110,
    "tests/jobs/engine/test_faults.py": 105,
    "tests/portal/server/test_heads.py": 95,
    "tests/portal/server/test_connections.py": 85,
    "tests/portal/server/test_probes.py": 74,
    "tests/jobs/engine/test_quota_race.py": 61,
    "tests/portal/database/test_restarts.py": 60,
    "tests/upgrade/test_cut_off.py": 60,
    "tests/portal/test_metrics.py": 60,
    "tests/deploy/test_monitoring.py": 50,
    "tests/tenants/people/test_sign_in_limit.py": 46,
    "tests/tenants/people/test_oidc.py": 44,
    "tests/portal/test_backup_under_load.py": 40,
    "tests/jobs/pod/gate/test_silent.py": 40,
    "tests/jobs/pod/test_git.py": 40,
    "tests/jobs/test_bundle_listing.py": 39,
    "tests/deploy/test_kubernetes.py": 35,
    "tests/portal/database/test_away.py": 30,
    "tests/portal/test_checks.py": 30,
    "tests/portal/test_full_disk.py": 28,
    "tests/portal/server/test_bodies.py": 28,
    "tests/portal/test_log_lines.py": 28,
    "tests/portal/routes/test_bodies.py": 28,
    "tests/repository/test_tool_mutants.py": 28,
    "tests/deploy/test_launch.py": 26,
    "tests/upgrade/test_old_backup.py": 25,
    "tests/portal/database/test_migrate.py": 25,
    "tests/jobs/client/test_follow.py": 20,
    "tests/portal/test_in_pod.py": 18,
    "tests/portal/test_serve.py": 18,
    "tests/portal/test_redis_outage.py": 18,
    "tests/jobs/engine/test_data_is_kept.py": 17,
    "tests/jobs/pod/gate/test_memory.py": 16,
    "tests/jobs/logs/test_one_upstream.py": 16,
    "tests/jobs/engine/test_takeover.py": 14,
    "tests/portal/test_durability.py": 13,
    "tests/jobs/pod/gate/test_websockets.py": 13,
    "tests/jobs/pod/gate/test_letting_in.py": 12,
    "tests/jobs/pod/gate/test_requests.py": 10,
    "tests/jobs/client/test_installed.py": 10,
    "tests/jobs/pod/gate/test_hostile.py": 9,
    "tests/jobs/pod/gate/test_revoking.py": 7,
}


_PORTAL = "tests/portal/"


WITH_SERVERS = (*PYTHON, "tests.tools.with_servers", *QUIET)
UPSTREAM = (*PYTHON, "tests.upstream.run")
UPSTREAM_USES = ("go", "nginx-light", "postgresql", "redis-server")
NODE_USES = UPSTREAM_USES
# There can be one cluster of nodes at a time on a machine: what has a cluster of its own is called apart.
NODES = ("tests/nodes",)
OWN_NODES = ("tests/nodes/test_killed.py", "tests/nodes/test_small.py")
# Homeport in pods of both nodes, which stays installed.
INSIDE = tuple(
    f"tests/nodes/test_{name}.py" for name in ("checks", "restore", "amiss", "rights", "inside")
)
# These have another Homeport in pods, each with a cluster of its own.
APART = tuple(f"tests/nodes/test_{name}.py" for name in ("production", "versions", "first_version"))
# What `.ci/run` tries of it, within ten minutes: the verdicts of policies, and Homeport in pods of both nodes.
SHORT_NODES = ("tests/nodes/test_network.py", "tests/nodes/test_inside.py")
# On nodes whose traffic is carried by devices of its own.
OVERLAY = (
    "tests/nodes/test_overlay.py",
    "tests/nodes/test_network.py",
    "tests/nodes/test_main_job.py::test_a_notebook_opens_through_both_nodes_and_again_when_it_was_killed",
)


def _without(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"--ignore={file}" for file in files)


def _in(*folders: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}" for folder in folders)


def _e2e(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/e2e/test_{name}.py" for name in names)


TWO = ("-n", "2", "--dist", "worksteal")
NO_BROWSER = ("-m", "not e2e and not slow and not upstream and not s3 and not postgresql")
BROWSER = ("-m", "e2e and not slow and not upstream")
# That all comes right within half a minute is a promise for a machine that does nothing else.
PATIENT = {"HOMEPORT_WITHIN_S": "90", "HOMEPORT_ANSWER_S": "2.5"}

PS_TRAINING = (
    "tests/e2e/test_first_training.py::test_a_distributed_training_from_upload_to_artifacts"
)
PEOPLE = (*_e2e("days"), PS_TRAINING)
PAGES = _e2e("accessibility")
SMOKE = tuple(f"{ONEBOX}/whole/test_{name}.py" for name in ("pods", "volumes", "logs"))
CRASHES = _e2e("crash_table")
# Without a browser, on a whole installation.
WHOLE = _e2e("attacked", "bad_input", "cli", "flood", "ordinary_user", "pods_door")
PLAIN = _e2e("plain_container")

_SANDBOX, _BOXES = f"{ONEBOX}/node_sandbox", f"{ONEBOX}/whole"
_OF_PODS = tuple(
    f"{_SANDBOX}/test_{name}.py"
    for name in (
        *("containers", "network", "dns", "services", "logs_written", "limits"),
        "start_and_end",
    )
)
_OF_ALL = tuple(
    f"{_BOXES}/test_{name}.py"
    for name in ("pods", "network", "volumes", "workloads", "logs", "deletion")
)
_INSTALLED = "test_requirements_are_installed_compiled_and_run_as_the_pods_user"
# What depends on who runs it.
CHOSEN = {
    "user": (
        *(
            f"{_SANDBOX}/test_{name}.py"
            for name in (
                *("containers", "isolation", "limits", "logs_written"),
                *("network", "start_and_end"),
            )
        ),
        f"{_SANDBOX}/test_services.py::test_a_cluster_ip_leads_to_the_ready_endpoints_in_turn",
        f"{_SANDBOX}/test_services.py::test_a_cluster_ip_is_for_its_own_namespace",
        f"{_SANDBOX}/test_services.py::test_a_node_port_leads_from_the_host_to_the_pod",
        f"{_SANDBOX}/test_dns.py::test_pods_look_names_up",
        f"{_SANDBOX}/test_images.py::{_INSTALLED}",
        "tests/contract/test_network_check.py::test_namespaces_are_apart",
    ),
    "plain": (*_OF_PODS, *_OF_ALL),
    "docker": tuple(f"{_SANDBOX}/test_{name}.py" for name in ("network", "dns", "services")),
}

# What decides how the embedded cluster's own tests end, which know nothing of Homeport ...
ONEBOX_INPUTS = (
    "deploy/onebox",
    "deploy/testcluster",
    "jobs/engine/network.py",
    "portal/cluster",
    "requirements-dev.txt",
    "requirements.txt",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/contract",
    "tests/tools",
)
# ... how a whole installation without a browser does: all of the product but pages and styles ...
PRODUCT_INPUTS = (
    *ONEBOX_INPUTS,
    "deploy",
    "jobs",
    "manage.py",
    "portal",
    "templates/manifests",
    "tenants",
    "tests/browsing.py",
    "tests/e2e",
    "tests/factories.py",
    "tests/faults",
    "tests/settings.py",
    "tests/upstream",
)
# ... and all the others.
ALL_INPUTS = (
    *PRODUCT_INPUTS,
    ".importlinter",
    "Makefile",
    "pyproject.toml",
    "static",
    "templates",
    "docs",
    "tests/builds.py",
    "tests/due.py",
    "tests/lane.py",
    "tests/lanes.py",
    "tests/measure.py",
    "tests/mutants.py",
    "tests/outcomes.py",
    "tests/pools.py",
    "tests/run.py",
    *(f"tests/{path.parent.name}" for path in sorted(TESTS.glob("*/__init__.py"))),
)

LANES = (
    Lane(
        "check",
        "format, types, layers, templates",
        ("check",),
        command="ci",
        goal_s=60,
        program=("make", "--no-print-directory"),
        is_pytest=False,
        has_results=False,
    ),
    Lane(
        "unit",
        "portal, namespaces and jobs, on SQLite",
        (*TWO, *NO_BROWSER, *_without(LATER), *_in(*FOLDERS, UPGRADE)),
        command="test",
        goal_s=420,
        load=1.5,
    ),
    Lane(
        "people",
        "the days of three people, and a training with a parameter server",
        (*BROWSER, *PEOPLE),
        command="test",
        goal_s=260,
        needs=(browser,),
    ),
    Lane(
        "pages",
        "pages: the rules of axe, the keyboard",
        (*BROWSER, *PAGES),
        command="test",
        goal_s=240,
        needs=(browser,),
    ),
    Lane(
        "smoke",
        "pods on the embedded cluster",
        (*NO_BROWSER, *SMOKE),
        command="test",
        goal_s=40,
        load=0.5,
    ),
    # Upstream's lane compares with what this one keeps, and asks itself where that is not there.
    Lane(
        "contract",
        "the contract of the embedded cluster",
        (*NO_BROWSER, *_in("contract")),
        command="test-all",
        goal_s=150,
        load=0.5,
    ),
    Lane(
        "upstream",
        "contract and pods on upstream Kubernetes",
        ("--without", "faults", "--without", "main-job"),
        command="ci",
        goal_s=900,
        uses=UPSTREAM_USES,
        program=UPSTREAM,
        is_pytest=False,
    ),
    Lane(
        "browser",
        "all else in a real browser, on a real cluster",
        (
            *BROWSER,
            *_in("e2e", *OTHERS),
            *_without((*_e2e("days"), *PAGES, *CRASHES, *WHOLE, *PLAIN)),
            f"--deselect={PS_TRAINING}",
        ),
        command="test-all",
        goal_s=660,
        needs=(browser,),
        uses=("go",),
        inputs=ALL_INPUTS,
    ),
    Lane(
        "whole",
        "a whole installation without a browser: command line, bad input, attacks, floods",
        (*BROWSER, *WHOLE),
        command="test-all",
        goal_s=360,
        uses=("postgresql",),
        beside=PATIENT,
        inputs=ALL_INPUTS,
    ),
    Lane(
        "upgrade",
        "from an earlier version, with it",
        ("-m", "(e2e or postgresql) and not slow and not upstream", *_in(UPGRADE)),
        command="test-all",
        goal_s=600,
        needs=(database_servers,),
        inputs=ALL_INPUTS,
    ),
    Lane(
        "upstream-job",
        "Homeport's main job on upstream Kubernetes",
        ("--only", "main-job"),
        command="ci",
        goal_s=600,
        uses=UPSTREAM_USES,
        program=UPSTREAM,
        is_pytest=False,
        inputs=ALL_INPUTS,
    ),
    Lane(
        "node-short",
        "two real nodes, the short part",
        SHORT_NODES,
        command="ci",
        goal_s=600,
        load=1,
        uses=NODE_USES,
        program=(*PYTHON, "tests.nodes.run", "or-left-out", *QUIET),
        prepared_by=(*PYTHON, "tests.nodes.run", "prepare"),
        inputs=ALL_INPUTS,
    ),
    Lane(
        "box",
        "the embedded cluster",
        (*NO_BROWSER, ONEBOX, *_without(SMOKE)),
        command="test-all",
        goal_s=420,
        inputs=ONEBOX_INPUTS,
    ),
    Lane(
        "servers",
        "with PostgreSQL and Redis",
        # The server is thrown away, and its databases with it.
        (
            *TWO,
            *NO_BROWSER,
            "--servers-only",
            "--reuse-db",
            *_in("portal", "tenants", "jobs"),
        ),
        command="test-all",
        goal_s=270,
        load=1.5,
        needs=(database_servers,),
        uses=("strace",),
        program=WITH_SERVERS,
        inputs=ALL_INPUTS,
    ),
    Lane(
        "s3",
        "trainings with PostgreSQL, Redis and S3",
        (*BROWSER, PS_TRAINING),
        command="test-all",
        goal_s=240,
        load=0.5,
        needs=(database_servers, s3_server),
        program=(*WITH_SERVERS, "--s3"),
        inputs=ALL_INPUTS,
    ),
    Lane(
        "s3-store",
        "files on an S3 server",
        ("-m", "s3", "tests/portal/storage"),
        command="test-all",
        goal_s=120,
        load=0.5,
        needs=(s3_server,),
        inputs=ALL_INPUTS,
    ),
    *(
        Lane(
            name,
            f"what is too long for `make test`: {title}",
            (*NO_BROWSER, *(file for file in LATER if file.startswith(_PORTAL) is is_portal)),
            command="test-all",
            goal_s=420,
            uses=uses,
            beside={"WEB_WAIT_S": "300"},
            inputs=ALL_INPUTS,
        )
        for name, title, is_portal, uses in (
            ("later-portal", "the portal itself", True, ("postgresql", "redis-server", "strace")),
            (
                *("later", "trainings and people", False),
                ("postgresql", "openssh-server", "prometheus"),
            ),
        )
    ),
    Lane(
        "upstream-faults",
        "faults of an upstream control plane",
        ("--only", "faults"),
        command="ci",
        goal_s=740,
        uses=UPSTREAM_USES,
        program=UPSTREAM,
        is_pytest=False,
        beside=PATIENT,
        inputs=PRODUCT_INPUTS,
    ),
    *(
        Lane(
            f"as-{way}",
            title,
            (*NO_BROWSER, "--as", way, *CHOSEN[way]),
            command="test-all",
            goal_s=240,
            load=0.5,
            inputs=ONEBOX_INPUTS,
        )
        for way, title in (
            ("plain", "pods in a plain container"),
            ("user", "pods as an ordinary user"),
            ("docker", "pods in a container of Docker's"),
        )
    ),
    Lane(
        "faults",
        "faults of the API, benches, and tests of tests",
        (*NO_BROWSER, *_in(*OTHERS)),
        command="test-all",
        goal_s=240,
        inputs=ALL_INPUTS,
    ),
    Lane(
        "kills",
        "killed around every call",
        (*BROWSER, *CRASHES),
        command="test-all",
        goal_s=260,
        beside=PATIENT,
        inputs=PRODUCT_INPUTS,
    ),
    Lane(
        "image",
        "Homeport's image, built and run",
        _in("image"),
        command="image",
        goal_s=400,
    ),
    Lane(
        "node",
        "two real nodes",
        NODES,
        command="node",
        goal_s=1_200,
        uses=NODE_USES,
        program=(*PYTHON, "tests.nodes.run", *QUIET),
    ),
    Lane(
        "plain-job",
        "the main job in a plain container",
        (*BROWSER, *PLAIN),
        command="test-all",
        goal_s=180,
        load=0.5,
        inputs=PRODUCT_INPUTS,
    ),
)
# The lanes that a command runs, in the order above: long ones begin early, and between them lie those
# that mostly wait, of which one then always fills what the long ones leave.
COMMANDS = {
    "test": {"test"},
    "test-all": {"test", "test-all"},
    "ci": {"test", "test-all", "ci"},
    "image": {"image"},  # fetches a Debian
    "node": {"node"},  # what it builds takes half an hour of two processors, once
}


def lanes_of(command: str) -> list[Lane]:
    """The lanes of a command."""
    return [lane for lane in LANES if lane.command in COMMANDS[command]]
