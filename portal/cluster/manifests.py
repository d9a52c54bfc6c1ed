"""Renders the YAML templates of `templates/manifests/` into checked Kubernetes objects.

Text never meets YAML unquoted: every value goes through `| tojson`, which is enforced, so no input
can change the shape of a document. Pure and blocking (tens of milliseconds for a hundred replicas):
call it in a thread.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, Undefined
from markupsafe import Markup

from portal.cluster import labels, yaml_text
from portal.cluster.kinds import KINDS
from portal.errors import ConfigurationError

Object = dict[str, Any]
_FOLDER = Path(__file__).resolve().parent.parent.parent / "templates" / "manifests"
# Characters that JSON leaves alone but YAML 1.1 folds as line breaks or refuses.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_POD_TEMPLATES = {"Job", "Deployment"}
_TEXT = "tag:yaml.org,2002:str"


class _Loader(yaml.CSafeLoader):
    """The C loader (the pure one takes 0.4 s for a hundred replicas) that knows JSON's numbers:
    YAML 1.1 takes `5e-3`, without a point, for a text.

    A hundred replicas have the same words: the type of each is found once, and mappings, lists and texts
    are built without the constructors of their tags, which took half of the time.
    """

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.ScalarNode:
            return _tag(value) if implicit[0] else _TEXT
        is_list = kind is yaml.SequenceNode
        return str(self.DEFAULT_SEQUENCE_TAG if is_list else self.DEFAULT_MAPPING_TAG)

    def construct_document(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            build = self.construct_document
            return {build(key): build(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [self.construct_document(item) for item in node.value]
        return node.value if node.tag == _TEXT else self.construct_object(node)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?[0-9]+(\.[0-9]+)?[eE][-+]?[0-9]+$"),
    list("-0123456789"),
)


@lru_cache(maxsize=4096)
def _tag(plain: str) -> str:
    """Of a word without quotes."""
    known = _Loader.yaml_implicit_resolvers.get(plain[:1], ())
    return next((tag for tag, form in known if form.match(plain)), _TEXT)


def _refuse(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)  # raises, and names the variable
    raise TypeError(f"{value!r} is no text, number, list or mapping")


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_refuse)


def _dumps(value: Any, **_: Any) -> str:
    """JSON that is also YAML; with real emoji, as PyYAML reads their escapes as broken halves."""
    text = _JSON.encode(value)
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _only_json(value: Any) -> Any:
    if isinstance(value, Markup):  # `tojson` returns it, nothing else in our templates does
        return value
    raise ConfigurationError(f"a template prints {value!r} without `| tojson`")


@lru_cache(maxsize=4)
def _environment(folder: Path) -> Environment:
    environment = Environment(  # no autoescape: this is YAML, not HTML
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_only_json,
    )
    environment.policies["json.dumps_function"] = _dumps
    return environment


def render(template_name: str, context: Any, *, folder: Path = _FOLDER) -> list[Object]:
    """The objects of one template, in the order of its documents.

    Adds the labels `app.kubernetes.io/managed-by` and `homeport.dev/owner` to each object and to
    the pod templates inside, and the annotation `homeport.dev/spec-hash`.

    Args:
        template_name: file in `templates/manifests/`, such as `tenant.yaml.j2`.
        context: a dataclass; its fields are the template's variables. It must have `owner` (id of
            the row, as text) and `namespace` (the only one that an object may be in).

    Raises:
        ConfigurationError: see there.
    """
    values = {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    try:
        text = _environment(folder).get_template(template_name).render(values)
        documents = [document for document in yaml.load_all(text, _Loader) if document]
    except (TemplateError, yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{template_name}: {error}") from error
    for position, document in enumerate(documents, 1):
        problem = _problem(document, context.namespace)
        if problem:
            raise ConfigurationError(f"{template_name}, document {position}: {problem}")
        _mark(document, context.owner)
    return documents


# People read these first; the rest follows in the order of the alphabet, for a database may keep
# the keys of a document in an order of its own.
_FIRST_KEYS = {key: place for place, key in enumerate(("apiVersion", "kind", "metadata", "name"))}


def to_yaml(documents: Sequence[Object]) -> str:
    """Documents as people read and apply them."""
    return yaml_text.dump(map(_ordered, documents))


def _ordered(value: Any) -> Any:
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (_FIRST_KEYS.get(key, len(_FIRST_KEYS)), key))
    return {key: _ordered(value[key]) for key in keys}


def _problem(document: Any, namespace: str) -> str:
    """What is wrong with a document, empty when nothing is."""
    if not isinstance(document, dict):
        return f"is no mapping but {type(document).__name__}"
    kind = KINDS.get(str(document.get("kind")))
    if kind is None:
        return f"kind {document.get('kind')!r} is none that Homeport makes"
    if document.get("apiVersion") != kind.api_version:
        return f"apiVersion of {kind.name} must be {kind.api_version}"
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return f"{kind.name} has no metadata.name"
    if kind.is_namespaced and meta.get("namespace") != namespace:
        return f"{kind.name} must be in namespace {namespace!r}, not {meta.get('namespace')!r}"
    if not kind.is_namespaced and (kind.name, meta["name"]) != ("Namespace", namespace):
        return f"{kind.name} {meta['name']!r} does not belong to namespace {namespace!r}"
    return ""


def spec_hash(document: Object) -> str:
    """16 hex digits over the document without its annotations and status; order does not matter."""
    meta = {key: value for key, value in document["metadata"].items() if key != "annotations"}
    content = {**document, "metadata": meta}
    content.pop("status", None)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _mark(document: Object, owner: str) -> None:
    places = [document["metadata"]]
    if document["kind"] in _POD_TEMPLATES:
        places.append(document["spec"]["template"].setdefault("metadata", {}))
    for meta in places:
        ours = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: owner}
        meta["labels"] = {**(meta.get("labels") or {}), **ours}
    annotations = document["metadata"].setdefault("annotations", {})
    annotations[labels.SPEC_HASH] = spec_hash(document)
