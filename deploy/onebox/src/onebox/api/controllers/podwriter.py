"""Creates and deletes pods on behalf of a workload, and says so in Events on it.

Sentences of k8s.io/kubernetes/pkg/controller/controller_utils.go (RealPodControl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onebox.api.controllers.objects import name_of, namespace_of, uid_of
from onebox.api.resources import Obj
from onebox.api.status import StatusError

if TYPE_CHECKING:
    from onebox.api.registry import Api


class PodWriter:
    """Writes pods for one controller; `component` is the source of the Events."""

    def __init__(self, api: Api, component: str) -> None:
        self._api = api
        self._component = component

    def create(self, owner: Obj, pod: Obj) -> str | None:
        """Create a pod in the owner's namespace.

        Returns:
            None, or the sentence of the API that refused it (quota, invalid template): already
            told in an Event, except for a namespace that is being removed.
        """
        try:
            created = self._api.create("pods", namespace_of(owner), pod)
        except StatusError as error:
            if not _is_terminating_namespace(error):
                text = f"Error creating: {error.message}"
                self._api.event(owner, "Warning", "FailedCreate", text, self._component)
            return error.message
        text = f"Created pod: {name_of(created)}"
        self._api.event(owner, "Normal", "SuccessfulCreate", text, self._component)
        return None

    def delete(self, owner: Obj, pod: Obj) -> None:
        """Delete a pod, if it is still that pod."""
        namespace, name = namespace_of(pod), name_of(pod)
        try:
            self._api.delete("pods", namespace, name, propagation="Background", uid=uid_of(pod))
        except StatusError as error:
            if error.code == 404:
                return
            text = f"Error deleting: {error.message}"
            self._api.event(owner, "Warning", "FailedDelete", text, self._component)
            raise
        text = f"Deleted pod: {name}"
        self._api.event(owner, "Normal", "SuccessfulDelete", text, self._component)


def _is_terminating_namespace(error: StatusError) -> bool:
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
