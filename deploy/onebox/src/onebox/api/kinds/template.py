"""Pod templates inside workloads: their defaults and rules."""

from __future__ import annotations

from onebox.api.kinds.pod_defaults import default_template
from onebox.api.kinds.pod_rules import check_pod_spec
from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause


def default_pod_template(spec: Obj) -> Obj:
    """Fill in the template of a workload's spec, and give it."""
    template: Obj = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_template(template.setdefault("spec", {}))
    return template


def check_pod_template(path: str, template: Obj) -> list[Cause]:
    """Check the template of a workload."""
    meta = template.get("metadata", {})
    causes = labels.check_labels(f"{path}.labels", meta.get("labels"))
    annotations = meta.get("annotations")
    causes.extend(labels.check_annotations(f"{path}.annotations", annotations))
    causes.extend(check_pod_spec(f"{path}.spec", template.get("spec", {})))
    if template.get("spec", {}).get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        causes.append(fields.forbidden(f"{path}.spec.ephemeralContainers", text))
    return causes


def check_template_labels(path: str, spec: Obj) -> list[Cause]:
    """Check that the selector of a workload selects the pods of its template."""
    found = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if labels.selects(spec.get("selector"), found):
        return []
    return [fields.invalid(path, found or None, "`selector` does not match template `labels`")]


def warn_about_name(name: str) -> list[str]:
    """Say when the names of the pods will not be host names."""
    wrong = names.dns_label(name)
    if not wrong:
        return []
    text = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
        f"behavior; a DNS label is recommended: [{' '.join(wrong)}]"
    )
    return [text]
