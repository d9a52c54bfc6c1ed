"""Where the code of a training comes from, as its body says: an upload, a URL, a repository or a folder."""

import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from rest_framework import serializers
from rest_framework.fields import empty

from jobs.kinds.training.fields import has_controls, refuse
from jobs.kinds.training.private import HIDDEN
from jobs.kinds.training.variables import usable_secret
from jobs.models import Bundle
from jobs.rules.code_addresses import RepositoryPage, cannot_be_unpacked, find_no_code, find_page
from portal.errors import FieldError

SHA256 = re.compile(r"[0-9a-f]{64}")
NO_UPLOAD = FieldError("source.bundle", "not_found", "You have no such upload.")
MAX_SOURCE_CHARS = 2000
MAX_REF_CHARS = 200
# What no name of a branch or tag has: https://git-scm.com/docs/git-check-ref-format. A word that begins with
# `-` is an option, one that begins with `+` or has `:` says where to keep what is fetched.
NO_REF = re.compile(
    r"[-+/].*|.*(\.\.|//|@\{|[\x00-\x20\x7f~^:?*\[\\]).*|.*(/|\.|\.lock)", re.DOTALL
)
# What ssh would take for an option begins with `-`.
SSH = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][\w.-]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?/[^\s\x00-\x20\x7f]+",
    re.ASCII,
)
SCP = re.compile(r"([^/:@\s]+)@([^/:@\s]+):(\S*)")
UNKNOWN_ARCHIVE = (
    "Such an archive cannot be unpacked here. Create a .zip or .tar.gz, or give a single file."
)
_BESIDE_GIT = ("ref", "path", "into", "secret")
SSH_KEYS = "ssh-privatekey and known_hosts"
REPOSITORIES = "https://host/repo.git or ssh://git@host/repo.git"


class SourceSerializer(serializers.Serializer[Any]):
    """Exactly one of bundle, url, git and path, which beside git is a folder of the repository."""

    bundle = serializers.UUIDField(required=False)
    url = serializers.URLField(required=False)
    sha256 = serializers.CharField(required=False, help_text="of what the url gives")
    git = serializers.CharField(required=False, help_text="of a repository, by https or ssh")
    ref = serializers.CharField(
        required=False,
        help_text="with git: a branch, a tag or a commit; absent: the default branch",
    )
    path = serializers.CharField(
        required=False, help_text="below /data; with git: a folder of the repository"
    )
    secret = serializers.CharField(
        required=False, help_text="with git: an own secret with a password, a token or a key"
    )

    def to_internal_value(self, data: Any) -> dict[str, str] | None:
        if data == {}:
            return None
        if not isinstance(data, Mapping):
            refuse("invalid", "This must be an object with bundle, url, git or path.")
        if "git" in data:
            found = _git(data)
            self._check_secret(found)
            return found
        if "dir" in data:
            text = "A folder of your machine is sent by homeport submit -f FILE; here upload it, or give git, url or path."
            refuse("invalid", text, "dir")
        kinds = set(map(str, data)) - {"sha256"}
        if len(kinds) != 1 or not kinds <= {"bundle", "url", "path"}:
            refuse("invalid", "Give exactly one of bundle, url, git and path.")
        kind = kinds.pop()
        if "sha256" in data and kind != "url":
            refuse("invalid", "A sha256 goes with a url only.", "sha256")
        if kind == "bundle" and data[kind] == "":
            refuse("required", "Upload the code, and give the upload's id here.", kind)
        given = _source_text(data, kind)
        if kind == "bundle":
            return self._bundle(given)
        return _url(given, data.get("sha256")) if kind == "url" else _path(given)

    def run_validation(self, data: Any = empty) -> dict[str, str] | None:
        is_done, value = self.validate_empty_values(data)
        return value if is_done else self.to_internal_value(value)

    def _check_secret(self, source: Mapping[str, str]) -> None:
        """That the secret has what git needs there."""
        is_ssh = source["git"].startswith("ssh:")
        if "secret" not in source:
            if is_ssh:
                refuse("required", f"ssh needs a secret with {SSH_KEYS}.", "secret")
            return
        keys = set(usable_secret(self, source["secret"], "secret").keys)
        if is_ssh and not {"ssh-privatekey", "known_hosts"} <= keys:
            refuse("invalid", f"ssh needs {SSH_KEYS} in this secret.", "secret")
        if not is_ssh and not keys & {"password", "token", "ca.crt"}:
            text = "git needs password or token, and maybe username, or ca.crt in this secret."
            refuse("invalid", text, "secret")

    def _bundle(self, given: str) -> dict[str, str]:
        try:
            bundle = Bundle.objects.filter(tenant=self.context["tenant"], pk=UUID(given)).first()
        except ValueError:
            bundle = None
        if bundle is None:
            refuse(NO_UPLOAD.code, NO_UPLOAD.text, "bundle")
        return {"bundle": str(bundle.pk), "sha256": bundle.sha256, "file_name": bundle.file_name}

    def to_representation(self, instance: Mapping[str, str]) -> dict[str, str]:
        """The source as it was given; what we added for the pods is left out."""
        of_url = ("url", "sha256", "git", "ref", "path", "into", "secret")
        keys = ("bundle",) if "bundle" in instance else of_url
        return {key: instance[key] for key in keys if key in instance}


def _source_text(data: Mapping[str, Any], kind: str) -> str:
    given = data[kind]
    is_text = isinstance(given, str) and 0 < len(given) <= MAX_SOURCE_CHARS
    if not is_text or has_controls(given):
        refuse("invalid", "This must be text of at most 2,000 characters.", kind)
    return str(given)


def _web_address(given: str) -> SplitResult | None:
    """Its parts; None: it is no URL."""
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and not re.search(r"[\s\x00-\x20\x7f]", given) else None


def _git(data: Mapping[str, Any]) -> dict[str, str]:
    """A repository with what of it is wanted; parts that are null or empty are left out."""
    if not set(map(str, data)) <= {"git", *_BESIDE_GIT}:
        refuse("invalid", "Beside git there may be ref, path, into and secret only.")
    named = {name for name in _BESIDE_GIT if data.get(name) not in (None, "")}
    given = {name: _source_text(data, name) for name in ("git", *sorted(named))}
    _check_repository(given["git"])
    if "ref" in given and (len(given["ref"]) > MAX_REF_CHARS or NO_REF.fullmatch(given["ref"])):
        refuse("invalid", "This is not a branch, a tag or a commit.", "ref")
    if given.get("ref") == "tag":
        text = "git takes this word for a keyword; write refs/heads/tag or refs/tags/tag."
        refuse("invalid", text, "ref")
    for name, where in (("path", "the repository"), ("into", "/workspace")):
        folder = given.get(name, "x").removesuffix("/")
        is_long = name == "into" and len(folder.encode()) > MAX_REF_CHARS
        if is_long or not {"", ".", ".."}.isdisjoint(folder.split("/")):
            text = f"The folder must lie in {where}; write sub/dir."
            refuse("invalid_path", text, name)
        if name in given:
            given[name] = folder
    return given


def _check_is_shown(given: str, kind: str) -> None:
    """That it is no answer's address, of which others than its owner see the host alone."""
    if given.endswith(f"/{HIDDEN}"):
        refuse("invalid_url", "Its owner alone sees this address; write it out.", kind)


def _check_repository(given: str) -> None:
    _check_is_shown(given, "git")
    if as_scp := SCP.fullmatch(given):
        user, host, path = as_scp.groups()
        text = f"Write this address as ssh://{user}@{host}/{path.lstrip('/')}."
        refuse("invalid_url", text, "git")
    ssh, parts = SSH.fullmatch(given), _web_address(given)
    if parts is not None and (page := find_page(given)):
        refuse("invalid_url", f"This is a page about a repository. {_as_git(page)}", "git")
    # git looks for a helper by the scheme as it is written, and has one for lower case only.
    is_https = given.startswith("https://")
    is_web = is_https and parts is not None and not (parts.query or parts.fragment)
    if not (ssh or is_web):
        text = f"This is not the address of a repository; write {REPOSITORIES}."
        refuse("invalid_url", text, "git")
    if (ssh and ssh["password"] is not None) or (parts and "@" in parts.netloc):
        text = (
            "A URL with a password, or by https with a user name, is refused, for others could "
            "read it. Put them into a secret."
        )
        refuse("secret_in_url", text, "git")


def _as_git(page: RepositoryPage) -> str:
    """What to write instead of a page, in the words of REST and of the command line."""
    parts = {"git": page.git, "ref": page.ref, "path": page.folder}
    flags = {"git": "--git", "ref": "--ref", "path": "--source-path"}
    said = {name: text for name, text in parts.items() if text}
    body = ", ".join(f"{name}: {text}" for name, text in said.items())
    line = shlex.join(word for name, text in said.items() for word in (flags[name], text))
    return f"Write {body} (homeport submit {line})."


def _url(given: str, sha256: Any) -> dict[str, str]:
    _check_is_shown(given, "url")
    parts = _web_address(given)
    if parts is None:
        refuse("invalid_url", "This is not a URL; write https://host/train.py.", "url")
    if "@" in parts.netloc:
        text = (
            "A URL with a user name or a password is refused. Upload the code instead, or fetch "
            "it in your program with a token from a variable."
        )
        refuse("invalid_url", text, "url")
    if page := find_no_code(given):
        text = "This is a repository, or a page about one, and gives no code that can be fetched."
        refuse("invalid_url", f"{text} {_as_git(page)}", "url")
    if cannot_be_unpacked(parts.path):
        refuse("invalid_url", UNKNOWN_ARCHIVE, "url")
    if sha256 in (None, ""):
        return {"url": given}
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256.lower()):
        refuse("invalid", "A sha256 has 64 digits of 0-9 and a-f.", "sha256")
    return {"url": given, "sha256": sha256.lower()}


def _path(given: str) -> dict[str, str]:
    parts = given.split("/")
    if not (given == "/data" or given.startswith("/data/")) or ".." in parts:
        refuse("invalid_path", "The path must lie on the data volume: /data/...", "path")
    return {"path": given}
