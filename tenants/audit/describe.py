"""The rows of the audit trail in words; pure. A verb that is not listed is shown as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenants.usage import TITLES

# verb -> what somebody did, before the kind and the name of the object
VERBS: dict[str, Any] = {
    "adopt": gettext_lazy("adopted"),
    "cancel": gettext_lazy("cancelled"),
    "change": gettext_lazy("changed"),
    "connect": gettext_lazy("connected a sign-in of"),
    "create": gettext_lazy("created"),
    "delete": gettext_lazy("deleted"),
    "disable": gettext_lazy("disabled"),
    "enable": gettext_lazy("enabled"),
    "end-session": gettext_lazy("ended a session of"),
    "end-sessions": gettext_lazy("ended the other sessions of"),
    "hold": gettext_lazy("held"),
    "invite": gettext_lazy("invited"),
    "join": gettext_lazy("joined as"),
    "extend": gettext_lazy("extended the deadline of"),
    "open": gettext_lazy("opened"),
    "password": gettext_lazy("changed the password of"),
    "prioritize": gettext_lazy("changed the priority of"),
    "prune": gettext_lazy("cleaned up"),
    "purge": gettext_lazy("started to purge"),
    "purged": gettext_lazy("purged"),
    "quota": gettext_lazy("changed the quota of"),
    "release": gettext_lazy("released"),
    "reorder": gettext_lazy("moved in the queue"),
    "reset": gettext_lazy("reset the password of"),
    "restore": gettext_lazy("restored"),
    "resume": gettext_lazy("resumed"),
    "revoke": gettext_lazy("revoked"),
    "sign-in": gettext_lazy("signed in as"),
    "sign-out": gettext_lazy("signed out as"),
    "start": gettext_lazy("started"),
    "stop": gettext_lazy("stopped"),
    "submit": gettext_lazy("submitted"),
    "suspend": gettext_lazy("suspended"),
    "try": gettext_lazy("tried"),
    "upload": gettext_lazy("uploaded"),
    "use-again": gettext_lazy("let new work start again on"),
}
# kind -> how the page calls such a thing
KINDS: dict[str, Any] = {
    "address": gettext_lazy("address"),
    "apitoken": gettext_lazy("API token"),
    "backup": gettext_lazy("backup"),
    "bundle": gettext_lazy("code"),
    "doctor": gettext_lazy("result of a doctor"),
    "job": gettext_lazy("training"),
    "node": gettext_lazy("node"),
    "scheduling": gettext_lazy("rules of the queue"),
    "team": gettext_lazy("team"),
    "template": gettext_lazy("template"),
    "tenant": gettext_lazy("namespace"),
    "user": gettext_lazy("person"),
    "usersecret": gettext_lazy("secret"),
}
# Which of several a row of such a kind is about, where its detail tells: kind -> theirs -> its name.
_SORTS: dict[str, Mapping[str, Any]] = {"job": {"finished": gettext_lazy("finished trainings")}}
# verb -> the same, where it did not happen
_REFUSED: dict[str, Any] = {"sign-in": gettext_lazy("failed to sign in as")}
# What people do to themselves, said without naming them again.
_OWN: dict[str, Any] = {
    "connect": gettext_lazy("connected another sign-in"),
    "join": gettext_lazy("joined"),
    "password": gettext_lazy("changed their password"),
    "sign-in": gettext_lazy("signed in"),
    "sign-out": gettext_lazy("signed out"),
    "end-session": gettext_lazy("ended one of their sessions"),
    "end-sessions": gettext_lazy("ended their other sessions"),
}


@dataclass(frozen=True)
class AuditSentence:
    """What an entry says, in the order of a sentence; empty parts are left out."""

    verb: str
    kind: str
    name: str


def describe(entry: Any) -> AuditSentence:
    """The sentence of an `AuditEntry`, without its person."""
    is_own = entry.kind == "user" and entry.actor_name == entry.object_name
    if is_own and entry.verb in _OWN:
        return AuditSentence(str(_OWN[entry.verb]), "", "")
    if entry.verb == "sign-in" and entry.object_name == "?":
        return AuditSentence(_("failed to sign in"), "", "")
    words = _REFUSED if entry.result == "refused" else {}
    verb = words.get(entry.verb) or VERBS.get(entry.verb, entry.verb)
    kind = KINDS.get(entry.kind, entry.kind)
    kind = _SORTS.get(entry.kind, {}).get(entry.detail.get("kind"), kind)
    return AuditSentence(str(verb), str(kind), entry.object_name)


def add_kind(kind: str, sorts: Mapping[str, str]) -> None:
    """A kind of an app, which it brings when it is ready, with the names of what it may be."""
    KINDS[kind] = get_text_list(list(sorts.values()), gettext_lazy("or"))
    _SORTS[kind] = sorts


def unsaid_lines(entry: Any) -> list[str]:
    """What of an entry's detail its sentence leaves out."""
    said = {"kind"} if entry.kind in _SORTS else set()
    return detail_lines({name: entry.detail[name] for name in entry.detail if name not in said})


def detail_lines(detail: Mapping[str, Any]) -> list[str]:
    """What else there is to know, a line each: "GPU: 2 → 4", "why: it hangs"."""
    before, after, lines, rest = detail.get("before"), detail.get("after"), [], {**detail}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            words = {
                "name": _name(name),
                "before": _value(before.get(name)),
                "after": _value(after.get(name)),
            }
            lines.append(_("%(name)s: %(before)s → %(after)s") % words)
        del rest["before"], rest["after"]
    return lines + [f"{_name(name)}: {_value(value)}" for name, value in rest.items()]


def _name(name: str) -> str:
    """Of a detail, with kinds of resources as all pages call them."""
    return " ".join(str(TITLES.get(word, word)) for word in name.replace("_", " ").split(" "))


def _value(value: Any) -> str:
    if value is None or value == "":
        return _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return str(value)
