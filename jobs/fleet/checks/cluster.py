"""Checks of the cluster: whether it answers, and whether it has what Homeport relies on."""

from collections.abc import Iterator, Sequence

from django.conf import settings
from django.utils.translation import gettext as _

from jobs.fleet.checks import Check, Report, moment
from jobs.models import ReconcilerLease


def checks(
    lease: ReconcilerLease | None, report: Report, open_nodes: Sequence[bool], class_name: str
) -> list[Check]:
    """All of them, in the order of the page.

    Args:
        open_nodes: for each node whether it takes new pods.
        class_name: the StorageClass that the settings name.
    """
    told = report.get("cluster", {})
    return [
        _api_server(lease, told),
        _version(told),
        _nodes(open_nodes),
        _storage_class(told, class_name),
        _pod_security(told),
        network(report),
        *_unknown_namespaces(report),
        _rights(told),
        _metrics(told),
    ]


def _answer(told: Report, name: str) -> tuple[str, str]:
    found = told.get(name) or {}
    return found.get("state", "unknown"), found.get("detail", "")


def _api_server(lease: ReconcilerLease | None, told: Report) -> Check:
    title, server = _("API server"), str(told.get("server", ""))
    error = lease.cluster_error if lease else ""
    if lease is None or lease.cluster_ok_at is None:
        step = _("Check HOMEPORT_KUBECONFIG, and that the cluster runs.")
        return Check("bad", title, error or _("Never reached"), step, None, server)
    if error:
        step = _("Check that the cluster runs; Homeport continues automatically when it responds.")
        return Check("bad", title, error, step, lease.cluster_ok_at, server)
    return Check("good", title, _("Responding"), "", None, server)


def _version(told: Report) -> Check:
    title, version = _("Kubernetes"), told.get("version", "")
    if not version:
        return Check("rest", title, _("Not yet known"))
    if told.get("is_old"):
        return Check("bad", title, version, _("Homeport needs 1.33 or newer: upgrade the cluster."))
    return Check("good", title, version)


def _nodes(open_nodes: Sequence[bool]) -> Check:
    title, count = _("Nodes"), len(open_nodes)
    if not count:
        return Check("bad", title, _("No nodes known"), _("Nothing runs until there are nodes."))
    text = _("%(open)s of %(all)s schedulable") % {"open": sum(open_nodes), "all": count}
    if all(open_nodes):
        return Check("good", title, text)
    tone = "warn" if any(open_nodes) else "bad"
    return Check(tone, title, text, _("See why"), route="nodes")


def _storage_class(told: Report, class_name: str) -> Check:
    state, detail = _answer(told, "storage_class")
    title = _("StorageClass %(name)s") % {"name": told.get("class_name", class_name)}
    if state == "yes":
        return Check("good", title, _("Available"), "", None, detail)
    if state == "no":
        text = _("The cluster has none of this name, so no volume can be created.")
        step = _("Create it, or name another in STORAGE_CLASS. It must allow ReadWriteMany.")
        return Check("bad", title, text, step)
    return Check("rest", title, _("Not yet known"), "", None, detail)


def _pod_security(told: Report) -> Check:
    state, detail = _answer(told, "pod_security")
    title = _("Pod Security")
    if state == "yes":
        return Check("good", title, _("Privileged pods are refused in people's namespaces."))
    if state == "no":
        text = _("Privileged pods are admitted to people's namespaces.")
        step = _("Turn on the PodSecurity admission: until then anybody can take over a node.")
        return Check("bad", title, text, step)
    text = _("Not yet checked: the check needs a first namespace.")
    return Check("rest", title, text, "", None, detail)


def network(report: Report) -> Check:
    """Whether namespaces are kept apart on the network, as it was tried with real pods."""
    state, detail = _answer(report, "network")
    at = moment((report.get("network") or {}).get("checked_at"))
    title = _("Network isolation")
    if state == "yes":
        return Check("good", title, _("Pods of different namespaces cannot reach each other."))
    if state == "no":
        text = _("Namespaces are not isolated: pods of one namespace can reach those of any other.")
        step = _(
            "Use a network plugin that enforces NetworkPolicies. Until then admit only people "
            "who trust each other."
        )
        return Check("bad", title, text, step, at, detail)
    text = _("The check could not be run.") if at else _("Not yet known")
    return Check("rest", title, text, "", None, detail)


def _unknown_namespaces(report: Report) -> Iterator[Check]:
    """A line for each installation whose namespaces no row knows."""
    for told in report.get("unknown_namespaces", []):
        names = ", ".join(told["names"])
        words = {"count": told["count"], "portal": told["portal"], "names": names}
        if told["portal"] == settings.POD_PORTAL_URL:
            text = _("%(count)s that this Homeport's database does not know: %(names)s") % words
            step = _("manage.py adopt lists them, and takes them over.")
        elif told["portal"]:
            text = _("%(count)s of another Homeport, %(portal)s: %(names)s") % words
            step = _("It is left alone. Each counts what the other runs as taken on the nodes.")
        else:
            text = _("%(count)s that do not tell of which Homeport they are: %(names)s") % words
            step = _("manage.py adopt lists them, and says why.")
        yield Check("warn", _("Namespaces not known here"), text, step)


_TOLD = 4  # rights that are named; the others are counted


def _rights(told: Report) -> Check:
    found = told.get("rights") or {}
    title = _("Permissions")
    if found.get("missing"):
        text = _("Homeport's account lacks: %(rights)s.") % {"rights": _some(found["missing"])}
        step = _("Apply deploy/cluster again; docs/cluster.md says what each permission is for.")
        return Check("bad", title, text, step)
    if found.get("excess"):
        rights = _some(found["excess"])
        text = _("Homeport's account has more than it needs: %(rights)s.") % {"rights": rights}
        step = _("Give each part of Homeport an account of its own, as docs/cluster.md shows.")
        return Check("warn", title, text, step)
    state = found.get("state", "unknown")
    if state == "yes":
        return Check(
            "good", title, _("Homeport's account has the permissions it needs, and no more.")
        )
    if state == "no":
        text = _(
            "This cluster does not limit accounts: everybody who reaches it may do everything."
        )
        return Check("rest", title, text, "", None, found.get("detail", ""))
    return Check("rest", title, _("Not yet known"), "", None, found.get("detail", ""))


def _some(rights: Sequence[str]) -> str:
    named = ", ".join(rights[:_TOLD])
    if len(rights) <= _TOLD:
        return named
    return _("%(named)s and %(count)s more") % {"named": named, "count": len(rights) - _TOLD}


def _metrics(told: Report) -> Check:
    state, detail = _answer(told, "metrics")
    title = _("Metrics API")
    if state == "yes":
        return Check("good", title, _("Available"))
    if state == "no":
        text = _("Not available. Homeport counts the requests of pods and does not need it.")
        return Check("rest", title, text)
    return Check("rest", title, _("Not yet known"), "", None, detail)
