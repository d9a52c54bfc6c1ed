"""Whatever the topology and its counts: flags and variables name the same replicas in the same order."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.manifests import render_training
from jobs.pod.protocol.placeholders import ReplicaContext, final_command, final_environment
from jobs.rules.topologies import TOPOLOGIES
from tests.manifests import unsaved
from tests.manifests.test_job_manifests import PODS

FLAGS = ("worker_hosts", "ps_hosts", "job_name", "task_index")


@st.composite
def trainings(draw: st.DrawFn) -> Any:
    topology = draw(st.sampled_from([*TOPOLOGIES.values()]))
    counts = {
        role.name: draw(st.integers(role.least, role.most or 4), role.name)
        for role in topology.roles
    }
    each: dict[str, Any] = {
        "cpu_millicores": 1000,
        "memory_bytes": 2**30,
        "gpu_count": draw(st.integers(0, 8)),
    }
    replicas = {role: {**each, "count": count} for role, count in counts.items() if count}
    if topology.elastic_env:
        replicas["worker"]["min_count"] = draw(st.none() | st.integers(1, counts["worker"]))
    may_be_sparse = topology.name == "tf-ps" and replicas.keys() == {"worker", "ps"}
    return unsaved(
        TRAINING,
        name="any",
        topology=topology.name,
        run_policy={"sparse_spec": may_be_sparse and draw(st.booleans())},
        image="python:3",
        command=("true",),
        cluster_flags=FLAGS,
        replicas=replicas,
    )


def names_of_pods(documents: list[Any]) -> dict[tuple[str, int], str]:
    """Role and index -> the name that the cluster gives its pod, without the namespace's part."""
    found = {}
    for one in documents:
        if one["kind"] not in {"Job", "Deployment"}:
            continue
        marks, pod = one["metadata"]["labels"], one["spec"]["template"]["spec"]
        role, subdomain = marks["homeport.dev/role"], pod["subdomain"]
        if one["kind"] == "Deployment":
            key = role, int(marks["homeport.dev/index"])
            found[key] = f"{pod['hostname']}.{subdomain}"
        for index in range(one["spec"].get("completions", 0)):
            found[role, index] = f"{one['metadata']['name']}-{index}.{subdomain}"
    return found


def given_to(training: Any, documents: list[Any]) -> dict[tuple[str, int], tuple[Any, Any]]:
    """Role and index -> flags and variables, made of job.json as the runner does."""
    [config] = [one for one in documents if one["kind"] == "ConfigMap"]
    job = json.loads(config["data"]["job.json"])
    found = {}
    for role, asked in training.replicas.items():
        for index in range(asked["count"]):
            where = (role, index, job["hosts"], "/data", job["folder"])
            more = {"role_count": job["counts"][role], "is_sparse": job.get("sparse_spec", False)}
            context = ReplicaContext(*where, **more)
            words = final_command([], job["cluster_flags"], context)
            flags = dict(word[2:].split("=", 1) for word in words)
            env = final_environment({}, job["environment"][role], context)
            found[role, index] = flags, env
    return found


@given(trainings())
def test_flags_and_variables_name_the_same_replicas_in_the_same_order(training: Any) -> None:
    topology = TOPOLOGIES[training.spec["topology"]]
    documents = render_training(training, attempt=1, pods=PODS)
    names = names_of_pods(documents)
    hosts: dict[str, list[str]] = {}
    for (role, index), name in sorted(names.items()):
        assert index == len(hosts.setdefault(role, []))
        hosts[role].append(f"{name}:2222")
    for apart in (role.name for role in topology.roles if role.is_apart or topology.is_array):
        hosts.pop(apart, None)
    found = given_to(training, documents)
    assert set(found) == set(names)
    first = "" if topology.is_array else hosts[topology.deciding(hosts).name][0][: -len(":2222")]
    for (role, index), (flags, env) in found.items():
        count = training.replicas[role]["count"]
        several = len(names) > 1
        assert flags == {
            "worker_hosts": ",".join(hosts.get("worker", [])),
            "ps_hosts": ",".join(hosts.get("ps", [])),
            "job_name": role,
            "task_index": str(index),
        }
        assert (env["JOB_NAME"], env["TASK_INDEX"], env["TASK_COUNT"]) == (
            role,
            str(index),
            str(count),
        )
        assert ("TF_CONFIG" in env) == (several and "TF_CONFIG" in topology.env)
        if "TF_CONFIG" in env:
            task = {"type": role, "index": index}
            told: Any = hosts
            if training.spec["run_policy"]["sparse_spec"]:
                own = {role: {str(index): hosts[role][index]}}
                told = own if role == "ps" else {**own, "ps": hosts["ps"]}
                root = documents[0]["spec"]
                assert (root["backoffLimitPerIndex"], root["maxFailedIndexes"]) == (3, 0)
                assert root["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
            assert json.loads(env["TF_CONFIG"]) == {
                "cluster": told,
                "environment": "cloud",
                "task": task,
            }
        processes = str(max(1, training.replicas[role]["gpu_count"]))
        least = training.replicas[role].get("min_count")
        if least is not None:
            spec = documents[0]["spec"]
            assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (3, count - least)
            assert spec["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
            assert not env.keys() & (topology.env.keys() - topology.elastic_env.keys())
            assert {name: env[name] for name in env if name.startswith("PET_")} == {
                "PET_NNODES": f"{least}:{count}",
                "PET_NPROC_PER_NODE": processes,
                "PET_RDZV_BACKEND": "c10d",
                "PET_RDZV_ENDPOINT": f"{first}:29400",
                "PET_RDZV_ID": first,
                "PET_RDZV_CONF": f"is_host={int(index == 0)}",
                "PET_MAX_RESTARTS": "100",
            }
        elif topology.name == "torch-ddp":
            assert {name: env[name] for name in topology.env} == {
                "MASTER_ADDR": first,
                "MASTER_PORT": "29500",
                "PET_MASTER_ADDR": first,
                "PET_MASTER_PORT": "29500",
                "RANK": str(index),
                "WORLD_SIZE": str(count),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "PET_NNODES": str(count),
                "PET_NODE_RANK": str(index),
                "PET_NPROC_PER_NODE": processes,
            }
        if topology.name == "jax":
            assert {name: env[name] for name in topology.env} == {
                "JAX_COORDINATOR_ADDRESS": f"{first}:2222",
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(index),
                "COORDINATOR_ADDRESS": first,
                "COORDINATOR_PORT": "2222",
                "NUM_PROCESSES": str(count),
                "PROCESS_ID": str(index),
            }
