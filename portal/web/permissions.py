"""The guards of REST; that of pages is `portal.web.request.admins_only`."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class AdminsOnly(BasePermission):
    """403 for everybody else."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user: Any = request.user  # tenants.models.User; this room lies below that one
        return bool(user.is_authenticated and user.may("administer"))


class ByVerb(BasePermission):
    """403 for whoever may not do what a method is for, as a view says: `verbs = {"PATCH": "change_quota"}`.

    The verbs are those of `tenants/policy.py`. Of one thing it is asked when that was found, for what
    somebody does not see answers 404. A view finds it before it reads the body.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(view.kwargs) or self.has_object_permission(request, view, None)

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        user: Any = request.user
        verb = getattr(view, "verbs", {}).get(request.method)
        if verb is not None:
            user.require(verb, obj)
        return True
