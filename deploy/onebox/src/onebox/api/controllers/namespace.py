"""The namespace controller: makes the four namespaces of every cluster, empties those that go.

Each active namespace gets the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`. A
namespace that is being deleted loses all its content (pods with their grace period), shows in
its conditions what is left, and loses the finalizer `kubernetes` when nothing is.
https://kubernetes.io/docs/tasks/administer-cluster/namespaces/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from onebox.api.controllers.namespace_status import removal_conditions
from onebox.api.controllers.objects import (
    Key,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import RESOURCES, Obj, Resource
from onebox.api.status import StatusError
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

INITIAL = ("default", "kube-system", "kube-public", "kube-node-lease")
FINALIZER = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
ROOT_CA_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)
CONTENT = tuple(resource for resource in RESOURCES if resource.namespaced)


class NamespaceController(Controller):
    """Keeps namespaces. Keys are namespace names.

    Args:
        ca_pem: certificate of the API's CA, for `kube-root-ca.crt`; empty: no such ConfigMap.
    """

    name = "namespace-controller"
    kinds = ("namespaces", *(resource.plural for resource in CONTENT))

    def __init__(self, api: Api, ca_pem: str = "") -> None:
        super().__init__(api)
        self._ca_pem = ca_pem

    def first_keys(self) -> Iterable[Key]:
        """The namespaces that every cluster has."""
        return [(name,) for name in INITIAL]

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A namespace wakes itself; what goes from it, and its two defaults, wake it too."""
        if plural == "namespaces":
            return ((name_of(obj),),)
        is_default = (plural, name_of(obj)) in (
            ("serviceaccounts", "default"),
            ("configmaps", ROOT_CA),
        )
        if is_default:
            return ((namespace_of(obj),),)
        namespace = self.api.find("namespaces", None, namespace_of(obj))
        return ((namespace_of(obj),),) if namespace is not None and is_deleting(namespace) else ()

    def sync(self, key: Key) -> float | None:
        """Bring one namespace in order."""
        (name,) = key
        namespace = self.api.find("namespaces", None, name)
        if namespace is None:
            if name in INITIAL:
                self.api.create("namespaces", None, {"metadata": {"name": name}})
        elif is_deleting(namespace):
            self._empty(namespace)
        else:
            self._furnish(name)
        return None

    def _furnish(self, namespace: str) -> None:
        if self.api.find("serviceaccounts", namespace, "default") is None:
            account = {"metadata": {"name": "default", "namespace": namespace}}
            self.api.create("serviceaccounts", namespace, account)
        if not self._ca_pem:
            return
        data = {"ca.crt": self._ca_pem}
        bundle = self.api.find("configmaps", namespace, ROOT_CA)
        if bundle is None:
            annotations = {"kubernetes.io/description": ROOT_CA_DESCRIPTION}
            metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": annotations}
            self.api.create("configmaps", namespace, {"metadata": metadata, "data": data})
        elif bundle.get("data") != data:
            self.api.update("configmaps", namespace, ROOT_CA, {**clone(bundle), "data": data})

    def _empty(self, namespace: Obj) -> None:
        name = name_of(namespace)
        if FINALIZER not in (spec_of(namespace).get("finalizers") or ()):
            return
        failures = [text for kind in CONTENT for text in self._delete_all(kind, name)]
        left = {kind: self.api.list(kind.plural, name) for kind in CONTENT}
        self._write_conditions(namespace, left, failures)
        if any(left.values()):
            return  # what is left wakes us when it goes
        current = clone(self.api.get("namespaces", None, name))
        spec = current.setdefault("spec", {})
        spec["finalizers"] = [each for each in spec.get("finalizers") or () if each != FINALIZER]
        self.api.update("namespaces", None, name, current, subresource="finalize")

    def _delete_all(self, kind: Resource, namespace: str) -> list[str]:
        failures = []
        for obj in list(self.api.list(kind.plural, namespace)):
            if is_deleting(obj):
                continue
            try:
                self.api.delete(
                    kind.plural,
                    namespace,
                    name_of(obj),
                    propagation="Background",
                    uid=uid_of(obj),
                )
            except StatusError as error:
                if error.code != 404:
                    failures.append(error.message)
        return failures

    def _write_conditions(
        self, namespace: Obj, left: dict[Resource, list[Obj]], failures: list[str]
    ) -> None:
        current = clone(self.api.get("namespaces", None, name_of(namespace)))
        status = current.setdefault("status", {})
        old = status_of(namespace).get("conditions") or []
        status["conditions"] = removal_conditions(old, left, failures, self.api.clock())
        self.api.update("namespaces", None, name_of(namespace), current, subresource="status")
