"""What of a training's request its owner alone sees: values of variables, and the code's address.

Others see the names of variables, and of an address its scheme and host. The values reach the pods in
the Secret that carries the token (`jobs/manifests.py`), never in a ConfigMap.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from jobs.models import Job
from portal.cluster.manifests import Object
from tenants import policy
from tenants.models import User

HIDDEN = "…"


def shown_env(job: Job, user: User) -> dict[str, str | None]:
    """Variable -> value; None where the user may not read it."""
    may_read = policy.may(user, "read_values", job.tenant)
    return {name: value if may_read else None for name, value in job.env.items()}


def shown_source(job: Job, user: User) -> dict[str, str] | None:
    """Where the code comes from, as it is stored; of an address what the user may read."""
    source: dict[str, str] | None = job.source
    if source is None or "url" not in source or policy.may(user, "read_values", job.tenant):
        return source
    return {**source, "url": shown_url(source["url"])}


def shown_url(url: str) -> str:
    """Scheme and host of an address, "https://host/…"."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{HIDDEN}"


def shown_plan(job: Job, user: User) -> list[Object]:
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
