"""Objects are read as upstream's typed decoder reads them."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError

from .bodies import (
    refuse,
    with_change,
)
from .conftest import pod


def test_unknown_fields_are_dropped_warned_about_or_refused(api: Api) -> None:
    from onebox.api.strategy import WriteOptions

    body = with_change(pod(), "spec.containers.0.imagee", "x") | {"extra": 1}
    warn = WriteOptions()
    made = api.create("pods", "lab", body, options=warn)
    assert "imagee" not in made["spec"]["containers"][0]
    assert sorted(warn.warnings) == [
        'unknown field "extra"',
        'unknown field "spec.containers[0].imagee"',
    ]
    with pytest.raises(StatusError) as refused:
        api.create("pods", "lab", body, options=WriteOptions(field_validation="Strict"))
    assert refused.value.code == 400
    assert refused.value.message.startswith(
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field'
    )
    quiet = WriteOptions(field_validation="Ignore")
    api.create("pods", "lab", with_change(body, "metadata.name", "q"), options=quiet)
    assert quiet.warnings == []


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (
            "spec.containers",
            "x",
            "cannot unmarshal string into Go struct field PodSpec.spec.containers",
        ),
        ("spec.containers.0.ports", [{"containerPort": "80"}], "of type int32"),
        ("spec.containers.0.env", [{"name": "A", "value": 1}], "EnvVar.spec.containers.env.value"),
        ("metadata.labels", {"a": True}, "cannot unmarshal bool"),
        ("spec.containers.0.resources", {"limits": {"cpu": "lots"}}, "quantities must match"),
        ("spec.terminationGracePeriodSeconds", 1.5, "of type int64"),
        ("spec.terminationGracePeriodSeconds", 2**63, "of type int64"),
        ("metadata.deletionTimestamp", "yesterday", "parsing time"),
    ],
)
def test_values_of_the_wrong_type_are_refused_as_upstreams_decoder_does(
    api: Api, path: str, value: Any, text: str
) -> None:
    error = refuse(api, "pods", with_change(pod(), path, value))
    assert (error.code, error.reason) == (400, "BadRequest")
    assert error.message.startswith('Pod in version "v1" cannot be handled as a Pod: ')
    assert text in error.message


def test_nulls_and_empty_lists_vanish_and_times_are_written_in_utc(api: Api) -> None:
    body = pod()
    body["metadata"] |= {"creationTimestamp": None, "labels": {}, "annotations": None}
    body["spec"] |= {"nodeSelector": {}, "hostAliases": [], "affinity": None}
    made = api.create("pods", "lab", body)
    assert not {"labels", "annotations"} & made["metadata"].keys()
    assert not {"nodeSelector", "hostAliases", "affinity"} & made["spec"].keys()
    started = {"status": {"startTime": "2026-11-20T13:00:00.25+01:00"}}
    done = api.patch("pods", "lab", "p", started, subresource="status")
    assert done["status"]["startTime"] == "2026-11-20T12:00:00Z"
