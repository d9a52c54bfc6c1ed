"""A program that counts, suspended and resumed, then continued as a new training: it never begins anew."""

import re

import pytest

from tests.e2e.portal import Portal, Rest
from tests.e2e.proofs import check_that_nothing_is_left
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

COUNTS = """
import os, signal
path = os.path.join(os.environ["LOG_DIR"], "count.pt")
n = int(open(path).read()) if os.path.exists(path) else 0
print("begins at", n, flush=True)
with open(os.path.join(os.environ["ARTIFACTS_DIR"], "begin"), "w") as file:
    file.write(str(n))
for n in range(n + 1, n + 41):
    with open(path + ".tmp", "w") as file:
        file.write(str(n))
    os.rename(path + ".tmp", path)
    print("count", n, flush=True)
    if n == 5:
        signal.pause()
"""


def numbers(ada: Rest, job: str, word: str, attempt: str = "latest") -> list[int]:
    log = ada.text(f"jobs/{job}/logs/?tail=5000&attempt={attempt}")
    return [int(number) for number in re.findall(rf"{word} (\d+)", log)]


def begin_of(ada: Rest, job: str) -> int:
    """What the artifact says that is listed of it."""
    [file] = [
        f for f in ada.get(f"jobs/{job}/artifacts/")["results"] if f["path"].endswith("begin")
    ]
    return int(ada.text(f"jobs/{job}/artifacts/{file['id']}/"))


def test_it_goes_on_where_it_was(portal: Portal, ada: Rest) -> None:
    job = ada.submit(
        name="counts",
        command=["python", "-c", COUNTS],
        replicas={"worker": {"cpu": "100m", "memory": "128Mi"}},
        deadline_s=600,
    )
    first = job["id"]
    ada.wait(job, "running")
    wait_for("it counts", lambda: 5 in numbers(ada, first, "count"), timeout_s=60)
    assert ada.call("POST", f"jobs/{first}/suspend/").ok
    held = ada.wait(job, "suspended", timeout_s=120)
    one = ada.call("GET", f"jobs/{first}/").json()
    so = {condition["type"]: condition["status"] for condition in one["conditions"]}
    assert so == {
        **dict.fromkeys(("Created", "Suspended"), "True"),
        **dict.fromkeys(("Queued", "Admitted", "Running"), "False"),
    }
    check_that_nothing_is_left(portal, ada, job, 5)
    assert held["last_checkpoint"]["name"] == "count.pt"
    assert ada.call("POST", f"jobs/{first}/resume/").ok
    done = ada.wait(job, "succeeded", timeout_s=120)
    assert [one["cause"] for one in done["attempts"]] == ["first", "resumed"]
    assert numbers(ada, first, "begins at", "all") == [0, 5]

    again = {"continue_from": first}
    answer = ada.call("POST", "jobs/", json=again)
    assert answer.status_code == 201, answer.text
    second = answer.json()["id"]
    refused = ada.call("POST", "jobs/", json=again)
    assert refused.json()["errors"][0]["code"] == "folder_in_use"
    ada.wait(answer.json(), "succeeded", timeout_s=120)
    assert numbers(ada, second, "begins at") == [45]
    assert (begin_of(ada, first), begin_of(ada, second)) == (5, 45)
    assert ada.call("DELETE", f"jobs/{first}/").status_code == 204
    wait_for("it is gone", lambda: ada.call("GET", f"jobs/{first}/").status_code == 404)
    assert begin_of(ada, second) == 45
    third = ada.call("POST", "jobs/", json={"continue_from": second}).json()
    ada.wait(third, "succeeded", timeout_s=120)
    assert numbers(ada, third["id"], "begins at") == [85]
