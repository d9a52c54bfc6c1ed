"""What of a training's request its owner alone sees: values of variables, and the code's address.

Others see the names of variables, and of an address its scheme and host. The values reach the pods in
the Secret that carries the token (`jobs/kinds/training/manifests.py`), never in a ConfigMap.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from portal.cluster.manifests import Object
from tenants import policy
from tenants.models import Tenant, User

HIDDEN = "…"


def shown_spec(spec: TrainingSpec, tenant: Tenant, user: User) -> TrainingSpec:
    """What the user may read of it: else no variable has a value (None), and no address its path."""
    if policy.may(user, "read_values", tenant):
        return spec
    source = spec.source
    if source is not None:
        hidden = {key: shown_url(text) for key, text in source.items() if key in {"url", "git"}}
        source = {**source, **hidden}
    return msgspec.structs.replace(spec, env=dict.fromkeys(spec.env), source=source)


def shown_url(url: str) -> str:
    """Scheme and host of an address, "https://host/…"."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{HIDDEN}"


def shown_plan(job: Workload, user: User) -> list[Object]:
    """The manifests; those of older versions without the values that the user may not read."""
    plan: Sequence[Object] = job.plan or []
    if policy.may(user, "read_values", job.tenant):
        return list(plan)
    return [_without_values(document) for document in plan]


def _without_values(document: Object) -> Object:
    text = (document.get("data") or {}).get("job.json") if document["kind"] == "ConfigMap" else None
    if text is None:
        return document
    content: dict[str, Any] = json.loads(text)
    env, source = content.get("env"), content.get("source")
    if isinstance(env, Mapping):
        content["env"] = dict.fromkeys(env)
    if isinstance(source, Mapping) and "url" in source:
        content["source"] = {**source, "url": shown_url(str(source["url"]))}
    data = {**document["data"], "job.json": json.dumps(content, ensure_ascii=False, indent=1)}
    return {**document, "data": data}
