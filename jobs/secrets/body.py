"""The body by which a secret is written: what its values may be."""

import base64
import json
import re
import string
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.kinds.training.fields import has_controls, refuse
from jobs.models import UserSecret
from portal.characters import first_outside
from portal.web.fields import Body, FixedChoice

MAX_KEYS = 32
MAX_VALUE_BYTES = 64 * 1024
REGISTRY_KEYS = ("server", "username", "password")
# A file's name: https://kubernetes.io/docs/concepts/configuration/secret/#restriction-names-data
_KEY_CHARS = frozenset(f"{string.ascii_letters}{string.digits}._-")
_KEY = re.compile(r"(?!\.\.?$|\.\.)[A-Za-z0-9._-]{1,253}")
_SERVER = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._/-]*)?")


def _key_problem(key: object) -> str:
    if outside := first_outside(key, _KEY_CHARS) if isinstance(key, str) else "":
        text = _(
            "A key has letters from a to z or A to Z, digits, dots, dashes and underscores only; %(outside)s is "
            "none of these."
        )
        return text % {"outside": outside}
    return _(
        "A key has up to 253 letters from a to z or A to Z, digits, dots, dashes and underscores; it is not "
        "one dot and does not begin with two."
    )


@extend_schema_field(serializers.DictField(child=serializers.CharField()))
class Values(serializers.Field[Any, Any, Any, Any]):
    """Names and values."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, Mapping) or not data:
            refuse("invalid", _("This must be an object with at least one key and value."))
        if len(data) > MAX_KEYS:
            refuse("too_many", _("At most %(most)s keys.") % {"most": MAX_KEYS})
        for key, value in data.items():
            at = str(key)[:80]
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                refuse("invalid_name", _key_problem(key), at)
            if not isinstance(value, str) or has_controls(value):
                refuse("invalid", _("A value must be text, without the character NUL."), at)
            if len(value.encode()) > MAX_VALUE_BYTES:
                refuse("too_long", _("A value has at most 64 KiB."), at)
        return dict(data)


class SecretBody(Body):
    """The body of PUT; its checked value has `kind`, `keys` and `values`, as the cluster is given them."""

    kind = FixedChoice(tuple(UserSecret.Kind), label=gettext_lazy("Kind"), default="generic")
    data = Values(label=gettext_lazy("Values"))  # type: ignore[assignment]  # the metaclass takes it out

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given: dict[str, str] = attrs["data"]
        if attrs["kind"] == UserSecret.Kind.GENERIC:
            return {"kind": attrs["kind"], "keys": sorted(given), "values": given}
        wrong = {key: _("This is needed.") for key in REGISTRY_KEYS if not given.get(key)}
        wrong |= {key: _("There is no such key.") for key in set(given) - set(REGISTRY_KEYS)}
        if not wrong and not _SERVER.fullmatch(given["server"]):
            wrong = {"server": _("Write the host of the registry, for example registry.example.")}
        if not wrong and ":" in given["username"]:  # which ends the name in `auth` below
            wrong = {"username": _("A user name has no colon.")}
        if wrong:
            raise serializers.ValidationError({"data": wrong}, "invalid")
        return {"kind": attrs["kind"], "keys": list(REGISTRY_KEYS), "values": _login(given)}


def _login(given: Mapping[str, str]) -> dict[str, str]:
    """As the kubelet reads it.

    https://kubernetes.io/docs/concepts/containers/images/#config-json
    """
    user, password = given["username"], given["password"]
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    login = {"username": user, "password": password, "auth": auth}
    return {".dockerconfigjson": json.dumps({"auths": {given["server"]: login}})}
