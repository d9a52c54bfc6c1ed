"""Reviews: who a client is, and what it may do. Pure.

onebox enforces no RBAC, so the answer is always that everything is allowed; it says why.
"""

from __future__ import annotations

from onebox.api.resources import Obj, Resource
from onebox.api.rules import fields
from onebox.api.status import invalid

WHY = "onebox enforces no RBAC: whoever holds a token may do everything"
_GROUPS = ("system:masters", "system:authenticated")


def answer(resource: Resource, review: Obj, user: str) -> Obj:
    """Give a review with its answer.

    Args:
        user: name of the client.

    Raises:
        StatusError: 422, the question is none.
    """
    match resource.kind:
        case "SelfSubjectAccessReview":
            _check_question(resource, review)
            status: Obj = {"allowed": True, "reason": WHY}
        case "SelfSubjectRulesReview":
            status = {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
                "evaluationError": WHY,
            }
        case _:
            status = {"userInfo": {"username": user, "groups": list(_GROUPS)}}
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    asked = {key: value for key, value in review.items() if key == "spec"}
    return {**head, **asked, "status": status}


def _check_question(resource: Resource, review: Obj) -> None:
    spec = review.get("spec", {})
    asked = [key for key in ("resourceAttributes", "nonResourceAttributes") if key in spec]
    if len(asked) != 1:
        words = {0: "exactly one of", 2: "cannot specify both"}[len(asked)]
        joint = "or" if not asked else "and"
        text = f"{words} nonResourceAttributes {joint} resourceAttributes"
        text += " must be specified" if not asked else ""
        raise invalid(resource, "", [fields.invalid("spec.resourceAttributes", None, text)])
