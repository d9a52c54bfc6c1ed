"""What exports hold: what Kubeflow's webhooks and controllers rely on, which no CRD says, and people's texts."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.training.export import FORMS, PLAIN, Export, exported
from jobs.kinds.training.manifests import render_training
from jobs.models import UserSecret, Workload
from tests.factories import make_job, make_tenant, role_request
from tests.jobs.kinds.training.test_environment import given_to, trainings
from tests.jobs.workloads.test_api import send
from tests.manifests import HOSTILE, altered, check_restricted
from tests.manifests.test_job_manifests import CHIEF, PODS, SINGLE, TF_PS

pytestmark = pytest.mark.django_db
GIT = {"git": "https://host/lab.git", "ref": "main"}
WORKER = {"cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 4}
ONE_PS = {role: {**WORKER, "count": 1} for role in ("worker", "ps")}


def ended(training: Workload, **changes: Any) -> Workload:
    return altered(training, run_policy={**training.spec["run_policy"], **changes})


def ddp(count: int, **of_role: Any) -> Workload:
    command, role = ("train", "--rank={{task_index}}"), {**WORKER, "count": count, **of_role}
    return altered(SINGLE, topology="torch-ddp", command=command, replicas={"worker": role})


PS_HOSTS = "--ps=NAME-ps-0.u-ada-1b2c3d4e.svc:2222,NAME-ps-1.u-ada-1b2c3d4e.svc:2222"
# Training, form, fields of the job, replica type -> replicas, restarts, last word of the command.
OPERATED: list[Any] = [
    (
        ended(TF_PS, retries=0, deadline_s=None),
        "tfjob",
        {"successPolicy": "AllWorkers"},
        {
            "Worker": (2, "Never", "--task_index=$(TASK_INDEX)"),
            "PS": (2, "Never", "--task_index=$(TASK_INDEX)"),
        },
    ),
    (
        ended(altered(TF_PS, replicas=ONE_PS), sparse_spec=True, deadline_s=None),
        "tfjob",
        {"successPolicy": "AllWorkers", "enableDynamicWorker": True},
        dict.fromkeys(("Worker", "PS"), (1, "OnFailure", "--task_index=$(TASK_INDEX)")),
    ),
    (
        ended(altered(CHIEF, cluster_flags=()), restart_policy="exit_code", clean_policy="all"),
        "tfjob",
        {"successPolicy": ""},
        {
            **dict.fromkeys(("Chief", "Evaluator"), (1, "ExitCode", PS_HOSTS)),
            "Worker": (2, "ExitCode", PS_HOSTS),
            "PS": (2, "ExitCode", "ps.py"),
        },
    ),
    (
        ddp(3),
        "pytorchjob",
        {"nprocPerNode": "4"},
        {"Master": (1, "OnFailure", "--rank=0"), "Worker": (2, "OnFailure", "--rank=$(RANK)")},
    ),
    (
        ended(ddp(3, min_count=2), retries=0),
        "pytorchjob",
        {
            "nprocPerNode": "4",
            "elasticPolicy": {
                "minReplicas": 2,
                "maxReplicas": 3,
                "rdzvBackend": "c10d",
                "rdzvPort": 29400,
                "rdzvId": "digits-h4vy6d-export",
                "maxRestarts": 100,
            },
        },
        {"Worker": (3, "OnFailure", "--rank=$(TASK_INDEX)")},
    ),
    (ddp(1), "pytorchjob", {"nprocPerNode": "4"}, {"Master": (1, "OnFailure", "--rank=0")}),
]
# Sets the operator, or a runner.
NOT_OURS = re.compile(r"TF_CONFIG|MASTER_|RANK|WORLD_SIZE|PET_|HOMEPORT_")


@pytest.mark.parametrize(("training", "form", "fields", "types"), OPERATED)
def test_jobs_of_the_operator(training: Workload, form: str, fields: Any, types: Any) -> None:
    [job] = FORMS[form].build(Export(training, FORMS[form]))
    name, spec = job["metadata"]["name"], job["spec"]
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)  # DNS-1035
    assert len(f"{name}-evaluator-63") < 63
    groups = spec["tfReplicaSpecs" if form == "tfjob" else "pytorchReplicaSpecs"]
    found = {}
    for kind, group in groups.items():
        pod = group["template"]["spec"]
        check_restricted(pod, {"emptyDir", "persistentVolumeClaim"})
        [main] = pod["containers"]
        is_other = "ps.py" in main["command"]
        assert main["image"] == ("lab/ps:1" if is_other else training.image)
        assert main["name"] == FORMS[form].container
        assert not [one["name"] for one in main["env"] if NOT_OURS.match(one["name"])]
        last = main["command"][-1].replace(name, "NAME")
        found[kind] = (group["replicas"], group["restartPolicy"], last)
    assert found == types
    assert {key: spec[key] for key in fields} == fields
    run, asked = spec["runPolicy"], training.spec["run_policy"]
    assert run["cleanPodPolicy"].lower() == asked["clean_policy"]
    assert run.get("activeDeadlineSeconds") == asked["deadline_s"]
    is_alone = spec.keys() & {"elasticPolicy", "enableDynamicWorker"}
    assert run.get("backoffLimit", 0) == (3 if is_alone else asked["retries"])


def expand(text: str, known: dict[str, str]) -> str:
    """As the kubelet reads commands and variables."""
    pattern = r"\$(?:(\$)|\(([^)]*)\))"
    return re.sub(pattern, lambda found: found[1] or known.get(found[2], found[0]), text)


def values(container: Any) -> dict[str, str]:
    """Its variables as its program finds them."""
    found = {one["name"]: expand(one["value"], {}) for one in container["env"]}
    assert len(found) == len(container["env"])
    return found


def as_exported(told: dict[str, str]) -> dict[str, str]:
    """With the names of an export in place of those of an attempt."""
    named = {key: re.sub(r"(any-\w{6})-(\w+-\d+)\.\1", r"\1-export-\2", told[key]) for key in told}
    return {key: re.sub(r"(/log/jobs/any-\w{6})", r"\1-export", named[key]) for key in named}


@given(trainings())
def test_each_replica_is_told_what_a_runner_would_tell_it(training: Any) -> None:
    documents = PLAIN.build(Export(training, PLAIN))
    services = [one["metadata"] for one in documents if one["kind"] == "Service"]
    rest = [one for one in documents if one["kind"] != "Service"]
    assert [one["metadata"] for one in rest] == services
    told = {}
    for one in rest:
        role, _, index = one["metadata"]["labels"]["app.kubernetes.io/component"].partition("-")
        pod = one["spec"]["template"]["spec"]
        kind = (one["kind"], pod["restartPolicy"])
        assert kind == (("Deployment", "Always") if role == "ps" else ("Job", "Never"))
        [main] = pod["containers"]
        env = values(main)
        assert (env.pop("PYTHONUNBUFFERED"), env.pop("HOME")) == ("1", "/home/homeport")
        told[role, int(index)] = dict(word[2:].split("=", 1) for word in main["command"][1:]), env
    known = given_to(training, render_training(training, attempt=1, pods=PODS))
    assert told == {key: (as_exported(known[key][0]), as_exported(known[key][1])) for key in known}


def test_whom_pods_trust_is_left_to_the_other_cluster(settings: Any) -> None:
    settings.POD_AUTHORITIES_FILE = "/etc/ssl/site.pem"
    assert Export(CHIEF, PLAIN).settings.authorities == ""
    assert "authorities" not in str(PLAIN.build(Export(CHIEF, PLAIN)))


@given(st.lists(HOSTILE | st.text("$()A{}"), min_size=1), st.text("$()A{}"))
def test_texts_of_people_reach_the_program_as_they_are(words: list[str], value: str) -> None:
    training = altered(SINGLE, command=words, env={"A": value}, source=None)
    [_service, job] = PLAIN.build(Export(training, PLAIN))
    [main] = job["spec"]["template"]["spec"]["containers"]
    assert [expand(word, {"A": "other"}) for word in main["command"]] == words
    assert values(main)["A"] == value


@pytest.mark.django_db
def test_who_gets_which_export() -> None:
    tenant = make_tenant("alice")

    def ask(form: str, **changes: Any) -> Any:
        job = make_job(tenant, **{"source": GIT, "source_commit": "ab" * 20, **changes})
        answer = send(tenant.owner, "GET", f"jobs/{job.pk}/export/?as={form}")
        return answer.content.decode() if answer.status_code == 200 else answer.json()["errors"][0]

    text = ask("kubernetes")
    assert text.startswith("# Training ")
    assert "ab" * 20 in text
    assert "Secrets" not in text
    UserSecret.objects.create(tenant=tenant, name="wandb", kind="generic", revisions=[1])
    text = ask("kubernetes", source_commit="", secrets={"wandb": "env"}).partition("apiVersion")[0]
    assert "Secrets that it names are of that namespace alone" in text.replace("\n# ", " ")
    assert "Its commit is not known yet" in text
    assert not re.search("token|HOMEPORT_URL", text)
    assert ask("helm")["code"] == "invalid_choice"
    assert "upload" in ask("kubernetes", source={"bundle": "x"})["text"]
    ps = {"topology": "tf-ps", "replicas": {"worker": role_request(), "ps": role_request()}}
    why = "A PyTorchJob is for torch-ddp. This training can be exported as kubernetes, tfjob."
    assert ask("pytorchjob", **ps) == {"field": "as", "code": "not_exportable", "text": why}
    two = {"worker": role_request(), "ps": role_request(count=2)}
    sparse = {"topology": "tf-ps", "replicas": two, "sparse_spec": True}
    assert "one parameter server" in ask("tfjob", **sparse)["text"]
    many = {"worker": role_request(count=64), "ps": role_request()}
    assert "64 replicas" in ask("tfjob", topology="tf-ps", replicas=many)["text"]


def test_of_an_array_it_says_that_all_tasks_start_at_once() -> None:
    """For a Job for each task knows neither how many run at a time nor how many have failed."""
    ada = make_tenant("ada")
    four = {"worker": role_request(count=4)}
    job = make_job(ada, topology="array", replicas=four, parallelism=2, max_failed=1, indexes="1-3")
    single = make_job(ada)
    told = {
        one.pk: " ".join(exported(one, "kubernetes", ada.owner)[1].split()) for one in (job, single)
    }
    assert "All 3 tasks start at once, not 2 at a time." in told[job.pk].replace("# ", "")
    assert "No task is stopped when more than 1 have failed." in told[job.pk].replace("# ", "")
    assert "at once" not in told[single.pk]
