"""Updates change only what may change."""

from __future__ import annotations

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError

from .bodies import (
    CLAIM,
    JOB,
    with_change,
)
from .conftest import Obj, pod


def update_refusal(api: Api, plural: str, name: str, patch: Obj) -> str:
    with pytest.raises(StatusError) as refused:
        api.patch(plural, "lab", name, patch)
    assert refused.value.code == 422
    return refused.value.message


def test_the_template_of_a_suspended_job_may_still_change_its_place(api: Api) -> None:
    api.create("jobs", "lab", with_change(JOB, "spec.suspend", True))
    labels = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}
    api.patch("jobs", "lab", "j", labels)
    text = update_refusal(
        api, "jobs", "j", {"spec": {"template": {"spec": {"dnsPolicy": "Default"}}}}
    )
    assert "field is immutable" in text
    api.patch("jobs", "lab", "j", {"spec": {"suspend": False}})
    text = update_refusal(
        api, "jobs", "j", {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    )
    assert "field is immutable" in text


def test_a_pod_changes_only_where_it_may(api: Api) -> None:
    api.create("pods", "lab", pod())
    image = {"spec": {"containers": [{"name": "main", "image": "other:2"}]}}
    api.patch("pods", "lab", "p", image, kind="strategic")
    api.patch("pods", "lab", "p", {"spec": {"activeDeadlineSeconds": 100}})
    text = update_refusal(api, "pods", "p", {"spec": {"activeDeadlineSeconds": 200}})
    assert "must be less than or equal to previous value" in text
    text = update_refusal(api, "pods", "p", {"spec": {"hostname": "other"}})
    assert "pod updates may not change fields other than `spec.containers[*].image`" in text
    extra = [*api.get("pods", "lab", "p")["spec"]["containers"], {"name": "n", "image": "i"}]
    text = update_refusal(api, "pods", "p", {"spec": {"containers": extra}})
    assert "pod updates may not add or remove containers" in text


def test_a_claim_is_bound_once_and_may_grow_where_its_class_allows(api: Api) -> None:
    name = "persistentvolumeclaims"
    api.create(name, "lab", CLAIM)
    text = update_refusal(api, name, "data", {"spec": {"accessModes": ["ReadWriteOnce"]}})
    assert "spec is immutable after creation except resources.requests" in text
    api.patch(name, "lab", "data", {"spec": {"volumeName": "v1"}})
    assert "spec is immutable" in update_refusal(api, name, "data", {"spec": {"volumeName": "v2"}})
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    api.patch(name, "lab", "data", bound, subresource="status")
    bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    with pytest.raises(StatusError, match="the storageclass that provisions the pvc must support"):
        api.patch(name, "lab", "data", bigger)
    api.patch("storageclasses", None, "glusterfs", {"allowVolumeExpansion": True})
    api.patch(name, "lab", "data", bigger)
    smaller = {"spec": {"resources": {"requests": {"storage": "512Mi"}}}}
    assert "can not be less than" in update_refusal(api, name, "data", smaller)
