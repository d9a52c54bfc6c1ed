"""Roles and bindings, which onebox keeps but does not enforce."""

from __future__ import annotations

from onebox.api.resources import Obj
from onebox.api.rules import fields, names
from onebox.api.status import Cause
from onebox.api.strategy import Strategy

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleStrategy(Strategy):
    """The rules of Roles and ClusterRoles."""

    @staticmethod
    def name_rule(name: str) -> list[str]:
        """Check a role's name, which may hold colons."""
        return names.path_segment(name)

    def defaults(self, obj: Obj) -> None:
        """Write the rules even when there are none."""
        obj.setdefault("rules", [])

    def validate(self, obj: Obj) -> list[Cause]:
        """Check that each rule says what and how."""
        causes: list[Cause] = []
        for i, rule in enumerate(obj["rules"]):
            path = f"rules[{i}]"
            if not rule.get("verbs"):
                text = "verbs must contain at least one value"
                causes.append(fields.required(f"{path}.verbs", text))
            if rule.get("nonResourceURLs"):
                if obj["kind"] == "Role":
                    text = "namespaced rules cannot apply to non-resource URLs"
                    urls = rule["nonResourceURLs"]
                    causes.append(fields.invalid(f"{path}.nonResourceURLs", urls, text))
                continue
            for field in ("apiGroups", "resources"):
                if not rule.get(field):
                    text = f"resource rules must supply at least one {_ONE[field]}"
                    causes.append(fields.required(f"{path}.{field}", text))
        return causes


_ONE = {"apiGroups": "api group", "resources": "resource"}


class BindingStrategy(Strategy):
    """The rules of RoleBindings and ClusterRoleBindings."""

    @staticmethod
    def name_rule(name: str) -> list[str]:
        """Check a binding's name, which may hold colons."""
        return names.path_segment(name)

    def defaults(self, obj: Obj) -> None:
        """Fill in the API groups."""
        obj.setdefault("roleRef", {}).setdefault("apiGroup", _GROUP)
        for subject in obj.get("subjects", ()):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", _GROUP)

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the role and the subjects."""
        role = obj["roleRef"]
        kinds = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
        causes = fields.one_of("roleRef.kind", role.get("kind"), kinds)
        if role["apiGroup"] != _GROUP:
            causes.append(fields.not_supported("roleRef.apiGroup", role["apiGroup"], (_GROUP,)))
        if not role.get("name"):
            causes.append(fields.required("roleRef.name"))
        for i, subject in enumerate(obj.get("subjects", ())):
            path = f"subjects[{i}]"
            causes.extend(fields.one_of(f"{path}.kind", subject.get("kind"), _SUBJECTS))
            if not subject.get("name"):
                causes.append(fields.required(f"{path}.name"))
            if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
                causes.append(fields.required(f"{path}.namespace"))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the role stays."""
        if new["roleRef"] == old["roleRef"]:
            return []
        return [fields.invalid("roleRef", new["roleRef"], "cannot change roleRef")]
