"""What bodies of REST and catalogues are taken or refused, and what a training becomes of them."""

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.test import Client, override_settings

from portal.catalog import get_catalog
from portal.errors import ConfigurationError
from tenants.models import Team, User
from tests.factories import make_job, make_tenant, make_user, submit_body
from tests.portal.routes.scene import undone
from tests.portal.routes.test_bodies import rows
from tests.recorded import GIVEN
from tests.recorded.browsers import as_json, without_ids


def each(fields: dict[str, list[Any]]) -> Iterator[tuple[str, Any]]:
    """Each field with each of its values."""
    return ((name, value) for name, values in fields.items() for value in values)


def shown(value: Any) -> str:
    """As it stands in a recorded file."""
    text = json.dumps(value)
    return text if len(text) < 90 else text[:60] + "…"


def refusals() -> dict[str, str]:
    """What becomes of each body of `given/bodies.yaml`: a status, and each refused field's code."""
    return dict(_refusals())


def _refusals() -> Iterator[tuple[str, str]]:
    tenant = make_tenant("alice", team=Team.objects.create(name="vision"))
    ids = {"<own>": str(make_job(tenant).pk), "<tenant>": str(tenant.pk)}
    ids["<namespace>"] = tenant.namespace
    make_user("bob")
    User.objects.filter(pk=make_user("disabled").pk).update(is_active=False)
    own, admins = Client(HTTP_HOST="localhost"), Client(HTTP_HOST="localhost")
    own.force_login(tenant.owner)
    admins.force_login(make_user("root", role="admin"))
    before = rows()
    for row in yaml.safe_load((GIVEN / "bodies.yaml").read_text()):
        method, path = row["call"].split()
        client = admins if path.startswith(("users", "teams", "tenants")) else own
        values = [("", row["good"]), *each(row["fields"])]
        for name, value in values:
            body = json.dumps({**row["good"], name: value} if name else value)
            url = f"/api/v1/{path}"
            for word, identity in ids.items():
                body, url = body.replace(word, identity), url.replace(word, identity)
            with undone():
                answer = client.generic(method, url, body, content_type="application/json")
                assert answer.status_code < 400 or rows() == before, (url, body)
            errors = as_json(answer).get("errors", ())
            if path.startswith("jobs/"):  # the others have some texts of Django's
                assert all(e["text"].endswith(".") or "quantity" in e["text"] for e in errors)
            said = [f"{error['code']} {error['field']}".strip() for error in errors]
            yield (
                f"{row['call']} {name}={shown(value)}",
                ", ".join([str(answer.status_code), *said]),
            )


def previews() -> str:
    """The manifests that two bodies become: the least one, and one with every field."""
    tenant = make_tenant("alice")
    tenant.namespace = "u-alice"
    tenant.save()
    client = Client(HTTP_HOST="localhost")
    client.force_login(tenant.owner)
    texts = []
    for body in (submit_body(), json.loads((GIVEN / "training.json").read_text())):
        answer = client.post("/api/v1/jobs/preview/", body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        texts.append(without_ids(answer.json()["manifests"]))
    return "---\n".join(texts)


def catalogue() -> dict[str, Any]:
    """For each part of the catalogue that comes with Homeport: which changes of it are refused."""
    whole = yaml.safe_load(Path(settings.CATALOG).read_text())
    changes: dict[str, Any] = {"null": None, "text": "x", "list": []}
    found = {"as it is": _refuses(whole)}
    for path in _paths(whole):
        *above, last = path
        refused = []
        for name, value in {"missing": ..., **changes}.items():
            changed = copy.deepcopy(whole)
            part = changed
            for key in above:
                part = part[key]
            if value is ...:
                del part[last]
            else:
                part[last] = value
            refused += [name] if _refuses(changed) else []
        found[".".join(map(str, path))] = ", ".join(refused)
    return found


def _paths(part: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    rows = part.items() if isinstance(part, dict) else enumerate(part[:1])
    for key, value in rows:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*above, key))


def _refuses(catalog: Any) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(catalog, file)
        file.flush()
        with override_settings(CATALOG=file.name):
            try:
                get_catalog()
            except ConfigurationError:
                return True
    return False
