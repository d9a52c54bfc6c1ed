"""Controllers and node together: an Indexed Job and a Deployment end to end."""

from __future__ import annotations

from onebox.testing.kube import Json, Space, is_ready, shell, sleeper

BATCH, APPS = "batch/v1", "apps/v1"


def template(container: Json, labels: dict[str, str] | None = None, **spec: object) -> Json:
    return {
        "metadata": {"labels": labels or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def has_condition(obj: Json, type_: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == type_ and c["status"] == "True" for c in conditions)


def test_an_indexed_job_runs_every_index_with_its_own_hostname(space: Space):
    body = {
        "metadata": {"name": "j"},
        "spec": {
            "completions": 3,
            "parallelism": 3,
            "completionMode": "Indexed",
            "template": template(
                shell("echo $JOB_COMPLETION_INDEX $(hostname)"), restartPolicy="Never"
            ),
        },
    }
    space.kube.create(space.path("jobs", group=BATCH), body)
    job = space.kube.wait(
        space.path("jobs", "j", group=BATCH), lambda j: has_condition(j, "Complete"), 30
    )
    assert job["status"]["succeeded"] == 3
    assert job["status"]["completedIndexes"] == "0-2"
    pods = space.kube.items(f"{space.path('pods')}?labelSelector=job-name=j")
    logs = {space.log(pod["metadata"]["name"]).strip() for pod in pods}
    assert logs == {"0 j-0", "1 j-1", "2 j-2"}


def test_a_job_whose_pod_fails_says_so(space: Space):
    body = {
        "metadata": {"name": "j"},
        "spec": {"backoffLimit": 0, "template": template(shell("exit 7"), restartPolicy="Never")},
    }
    space.kube.create(space.path("jobs", group=BATCH), body)
    job = space.kube.wait(
        space.path("jobs", "j", group=BATCH), lambda j: has_condition(j, "Failed"), 30
    )
    assert job["status"]["failed"] == 1


def test_a_deployment_keeps_its_pods_and_scales(space: Space):
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "template": template(sleeper(), {"app": "d"}),
        },
    }
    path = space.path("deployments", "d", group=APPS)
    space.kube.create(space.path("deployments", group=APPS), body)
    space.kube.wait(path, lambda d: (d.get("status") or {}).get("readyReplicas") == 2)
    pods = space.kube.items(f"{space.path('pods')}?labelSelector=app=d")
    space.kube.delete(space.path("pods", pods[0]["metadata"]["name"]), grace_s=0)

    def replaced(_: Json) -> bool:
        now = space.kube.items(f"{space.path('pods')}?labelSelector=app=d")
        names = {pod["metadata"]["name"] for pod in now if is_ready(pod)}
        return len(names) == 2 and pods[0]["metadata"]["name"] not in names

    space.kube.wait(path, replaced)
    space.kube.patch(path, {"spec": {"replicas": 0}})
    space.kube.wait(path, lambda d: not (d.get("status") or {}).get("replicas"))
