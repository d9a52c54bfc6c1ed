"""Brings one commit of a git repository into the working directory, without its history.

The program `git` is given nothing of the pod's own: no configuration but the one below, no home, no hooks, no way
to ask. Credentials are those of the secret that the training names, by GIT_ASKPASS or as a key of ssh: none is in an
argument, in the address or in the repository. It may speak HTTPS, or ssh where the address says so, and follows no
redirect, since a server that people name must not lead it elsewhere. Submodules and Git LFS are not fetched. What it
writes is measured while it runs.
See https://git-scm.com/docs/git-config and https://git-scm.com/docs/git#_environment_variables.
"""

import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from jobs.pod.addresses import TRIES, check_url, pause_s, shown, unreachable
from jobs.pod.errors import PodError, PortalError
from jobs.pod.portal_client import PortalClient, starting_budget
from jobs.pod.protocol import codes

SECRET_DIR = "/run/git-secret"
TOTAL_S = 600
WATCH_S = 0.25  # between looks at what has been written
COMMIT = re.compile(r"[0-9a-f]{40}")  # all digits of a SHA-1
SHOWN_DIGITS = 12
READ_BYTES = 64 * 1024
MESSAGE_BYTES = 16 * 1024  # of the end of what git says

_SETTINGS = (
    "protocol.allow=never",
    "http.followRedirects=false",
    "credential.helper=",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    # This container has the memory of the replica, which may be little: larger files are streamed.
    "core.bigFileThreshold=16m",
    "pack.threads=1",
    # What comes is kept as it comes, and so is seen to grow; else a small pack is unpacked.
    "fetch.unpackLimit=1",
)
# What is taken of a secret; it may hold more.
_SECRET_FILES = ("username", "password", "token", "ca.crt", "ssh-privatekey", "known_hosts")
# ssh asks nothing, trusts the servers of `known_hosts` alone, and offers the one key.
_SSH = (
    "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none -o ForwardAgent=no"
    " -o PreferredAuthentications=publickey -o StrictHostKeyChecking=yes -o UpdateHostKeys=no"
    " -o GlobalKnownHostsFile=/dev/null -o ConnectTimeout=15 -o LogLevel=ERROR"
    " -o UserKnownHostsFile={folder}/known_hosts -i {folder}/ssh-privatekey"
)
# Answers the one question that git asks, from the files of the secret.
_ASKPASS = """#!/bin/sh
case "$1" in
Username*) cat "${0%/*}/username" 2>/dev/null || echo git ;;
*) cat "${0%/*}/password" 2>/dev/null || cat "${0%/*}/token" ;;
esac
"""
# What an image may say about the way to the outside; a certificate authority of one's own is such.
_PASSED = (
    *("PATH", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
)
# As Python calls the same, which fetches code from a URL.
_ALIASES = {"GIT_SSL_CAINFO": "SSL_CERT_FILE", "GIT_SSL_CAPATH": "SSL_CERT_DIR"}


class _Saying(NamedTuple):
    """What git says of a failure, and what that means; `{where}` is the server."""

    pattern: str
    reason: str
    text: str


# The first that is found holds. The words are those of git 2.39 with LC_ALL=C.
_SAYINGS = (
    _Saying(
        r"could not read (Username|Password)|Authentication failed|returned error: 40[13]\b",
        codes.GIT_DENIED,
        "{where} asks for a password, or has no such repository",
    ),
    _Saying(
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        codes.GIT_HOST_KEY,
        "{where} has another key than known_hosts of the secret says, or none that it lists",
    ),
    _Saying(
        r"Permission denied \(|Load key .*: |invalid format",
        codes.GIT_DENIED,
        "{where} does not take the key of the secret, or that is no private key without a passphrase",
    ),
    _Saying(
        r"No user exists for uid|cannot run ssh|ssh: not found",
        codes.NO_GIT,
        "this image has no ssh, or no user of the number that it runs as",
    ),
    _Saying(
        r"couldn't find remote ref|not our ref|unadvertised object|Could not find remote branch",
        codes.GIT_REF,
        "the repository has no {ref}",
    ),
    _Saying(
        r"remote-https' is not a git command|remote helper for 'https'",
        codes.NO_GIT,
        "this git cannot speak HTTPS",
    ),
    _Saying(
        r"returned error: 3\d\d|update url base from redirection",
        codes.SOURCE_UNREACHABLE,
        "{where} redirects to another address, which is not followed; give that address, often the "
        "same with .git at its end",
    ),
    _Saying(
        r"repository '.*' not found|does not appear to be a git repository|Repository not found",
        codes.SOURCE_UNREACHABLE,
        "{where} has no such repository",
    ),
)


def bring(config: dict[str, Any], portal: PortalClient, workspace: str, limit_bytes: int) -> str:
    """Fills the empty working directory; returns a sentence about what came.

    All replicas and attempts of a training take the same commit: the first that is reported.

    Args:
        limit_bytes: of what is fetched.

    Raises:
        PodError: with reason and sentence.
        OSError: the working directory cannot be written.
    """
    source = config["source"]
    check_url(source["git"], ("https", "ssh"))
    path, asked = source.get("path", ""), source.get("ref") or "HEAD"
    folder = config.get("secret_dir", SECRET_DIR) if source.get("secret") else ""
    into = source.get("into", "")
    repository = _Repository(source["git"], workspace, limit_bytes, into, folder)
    try:
        pinned = source.get("commit") or _agree(config, portal, "")
        commit = repository.fetch(pinned or asked, is_pinned=bool(pinned))
        tree = repository.look_into(commit, path)
        if not pinned and (agreed := _agree(config, portal, commit)) != commit:
            commit = repository.fetch(agreed, is_pinned=True)
            tree = repository.look_into(commit, path)
        repository.check_out(tree)
    finally:
        repository.close()
    more = ""
    if tree.submodules:
        more = f"; its submodules are not fetched ({tree.submodules})"
    where = shown(source["git"])
    return f"the code is commit {commit[:SHOWN_DIGITS]} of {where} ({tree.files} files){more}"


def _agree(config: Mapping[str, Any], portal: PortalClient, commit: str) -> str:
    """The commit that the whole training takes: this one if none was reported before; "": none yet.

    Raises:
        PodError: the portal cannot be asked.
    """
    path = f"jobs/{config['id']}/commit/"
    budget = starting_budget(dict(config))
    try:
        answer = budget.keep_trying(lambda: portal.post(path, {"commit": commit}))
    except PortalError as error:
        raise unreachable(f"the portal does not say which commit to take: {error}") from error
    agreed = str(answer.get("commit") or "")
    return agreed if COMMIT.fullmatch(agreed) else ""


class _Tree(NamedTuple):
    """The folder of a commit that is wanted, by git's name for it."""

    name: str
    files: int
    submodules: int


class _Repository:
    """An empty repository beside the code, and the program `git` on it, for `TOTAL_S`."""

    def __init__(
        self, url: str, workspace: str, limit_bytes: int, into: str = "", secret_dir: str = ""
    ) -> None:
        """
        Args:
            into: folder of the working directory.
            secret_dir: the files of the secret; empty: none.
        """
        self._url = url
        self._workspace = workspace
        self._into = os.path.join(workspace, into)
        self._limit_bytes = limit_bytes
        self._until = time.monotonic() + TOTAL_S
        self._folder = os.path.join(workspace, f".homeport-{secrets.token_hex(8)}")
        self._home = os.path.join(self._folder, "home")  # stays empty: no .netrc, no .gitconfig
        os.makedirs(self._home)
        os.makedirs(self._into, exist_ok=True)
        self._secret_dir = self._copied(secret_dir) if secret_dir else ""

    def _copied(self, secret_dir: str) -> str:
        """The secret in files of our own, as ssh wants them: it takes no key that others may read."""
        own = tempfile.mkdtemp(prefix="homeport-")  # of this container alone
        for name in _SECRET_FILES:
            if os.path.exists(os.path.join(secret_dir, name)):
                with open(os.path.join(secret_dir, name), "rb") as file:
                    text = file.read().replace(b"\r\n", b"\n")
                # Without an end of the line the last one of a key is not read.
                _write(os.path.join(own, name), text.rstrip(b"\n") + b"\n", 0o600)
        _write(os.path.join(own, "askpass"), _ASKPASS.encode(), 0o700)
        return own

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._secret_dir:
            shutil.rmtree(self._secret_dir)

    def fetch(self, ref: str, *, is_pinned: bool) -> str:
        """Fetches a branch, a tag or a commit; the commit.

        Raises:
            PodError: git_denied, git_ref, git_gone (of a pinned one), no_git, source_unreachable,
                bundle_too_large.
        """
        self._git("init", "--quiet", "--template=")
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
        for attempt in range(TRIES):
            time.sleep(pause_s(attempt))
            if self._git("fetch", *options, "--", self._url, ref) == 0:
                break
            error = self._failure(ref, is_pinned=is_pinned)
            if error is not None:
                raise error
            if attempt + 1 == TRIES:
                raise unreachable(
                    f"{shown(self._url)} cannot be fetched from: {self._last_words()}"
                )
        if self._git("rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}") != 0:
            raise PodError(codes.GIT_REF, f"{_named(ref)} of the repository is not a commit")
        with open(self._output, encoding="ascii") as file:
            return file.read().strip()

    def look_into(self, commit: str, path: str) -> _Tree:
        """The folder, whose files are within the limits of `codes`.

        Raises:
            PodError: git_path, bundle_unsafe, bundle_too_large, source_unreachable (too slow).
        """
        # No path of a tree leads out of it, and git follows no link within one.
        tree = f"{commit}:{path}"
        if self._git("ls-tree", "-r", "-l", "-z", "--full-tree", tree) != 0:
            text = f"commit {commit[:SHOWN_DIGITS]} has no folder {path}"
            raise PodError(codes.GIT_PATH, text)
        files = submodules = size_bytes = 0
        for entry in _entries(self._output):
            about, _tab, name = entry.partition(b"\t")
            _mode, kind, _digest, size = about.split()
            if kind == b"commit":
                submodules += 1
                continue
            files += 1
            size_bytes += int(size)
            if files > codes.MAX_MEMBERS or size_bytes > codes.MAX_UNPACKED_BYTES:
                raise PodError(
                    codes.BUNDLE_TOO_LARGE,
                    f"commit {commit[:SHOWN_DIGITS]} has more than {codes.MAX_MEMBERS} files or "
                    f"{codes.MAX_UNPACKED_BYTES // 1024**3} GiB there",
                )
            if len(name) > codes.MAX_MEMBER_NAME_BYTES or any(
                len(part) > codes.MAX_NAME_PART_BYTES for part in name.split(b"/")
            ):
                text = f"{name[:80].decode('utf-8', 'replace')}... has too long a name"
                raise PodError(codes.BUNDLE_UNSAFE, text)
        return _Tree(tree, files, submodules)

    def check_out(self, tree: _Tree) -> None:
        """Writes the files of a folder that was looked into.

        Raises:
            PodError: bundle_unsafe, source_unreachable (too slow).
        """
        # git reads a tree with names that lead out, or into a repository, as an error.
        for words in (("read-tree", tree.name), ("checkout-index", "--all", "--quiet")):
            if self._git(*words) != 0:
                raise PodError(codes.BUNDLE_UNSAFE, f"git refuses it: {self._last_words()}")

    # --- the program ---
    @property
    def _output(self) -> str:
        return os.path.join(self._folder, "output")

    @property
    def _messages(self) -> str:
        return os.path.join(self._folder, "messages")

    def _git(self, *words: str) -> int:
        """Runs git to its end; its exit code. What it prints is in `_output` and `_messages`.

        Raises:
            PodError: no_git; it wrote or took too much, and was killed.
        """
        is_ssh = self._secret_dir and self._url.startswith("ssh:")
        scheme = "ssh" if is_ssh else "https"
        all_settings = (*_SETTINGS, f"protocol.{scheme}.allow=always")
        settings = [word for setting in all_settings for word in ("-c", setting)]
        # Files and not pipes: what a server sends without end is measured like all else.
        with open(self._output, "wb") as output, open(self._messages, "wb") as messages:
            try:
                process = subprocess.Popen(
                    ["git", *settings, *words],
                    cwd=self._workspace,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=messages,
                    start_new_session=True,
                )
            except (FileNotFoundError, PermissionError) as error:
                raise PodError(codes.NO_GIT, "there is no program git") from error
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        code = process.wait(WATCH_S)
                        self._check_size()
                        return code
                    self._check_size()
                    if time.monotonic() > self._until:
                        raise unreachable(f"the code was not fetched within {TOTAL_S} s")
            finally:
                if process.poll() is None:
                    # With its helpers: one of them has the connection.
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def _environment(self) -> dict[str, str]:
        found = {name: os.environ[name] for name in _PASSED if os.environ.get(name)}
        for name, alias in _ALIASES.items():
            if name not in found and os.environ.get(alias):
                found[name] = os.environ[alias]
        if self._secret_dir:
            found |= _credentials(self._secret_dir)
        return {
            **found,
            "HOME": self._home,
            "LC_ALL": "C",
            "GIT_DIR": os.path.join(self._folder, "repository"),
            "GIT_WORK_TREE": self._into,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def _check_size(self) -> None:
        if _size_bytes(self._folder) > self._limit_bytes:
            text = f"the code is larger than {self._limit_bytes // 1024**2} MiB as it is fetched"
            raise PodError(codes.BUNDLE_TOO_LARGE, text)

    # --- what it says ---
    def _said(self) -> str:
        with open(self._messages, "rb") as file:
            file.seek(max(0, os.path.getsize(self._messages) - MESSAGE_BYTES))
            return file.read().decode("utf-8", "replace")

    def _last_words(self) -> str:
        """Its last complaint without the address, nor what names the repository: others read it."""
        said = [line.strip() for line in self._said().splitlines() if line.strip()]
        complaints = [line for line in said if line.startswith("ssh: ")]  # git then says nothing
        complaints = complaints or [line for line in said if line.startswith(("fatal:", "error:"))]
        last = (complaints or said or ["it does not say why"])[-1]
        for name in _names_in(self._url):
            last = re.sub(re.escape(name), "…", last, flags=re.IGNORECASE)
        bare = re.sub(r"https?://[^\s']+", shown(self._url), last)
        return bare.partition(": ")[2][:300] if complaints else bare[:300]

    def _failure(self, ref: str, *, is_pinned: bool) -> PodError | None:
        """What a failed fetch means; None: it may go better the next time."""
        said = self._said()
        for saying in _SAYINGS:
            if not re.search(saying.pattern, said):
                continue
            if saying.reason == codes.GIT_REF and is_pinned:
                text = f"the repository no longer has commit {ref[:SHOWN_DIGITS]}"
                return PodError(codes.GIT_GONE, text)
            text = saying.text.format(where=shown(self._url), ref=_named(ref))
            return PodError(saying.reason, text)
        return None


def _credentials(folder: str) -> dict[str, str]:
    """The variables by which git finds what is in the folder of a secret."""
    found = {"GIT_SSH_COMMAND": _SSH.format(folder=shlex.quote(folder))}
    has = set(os.listdir(folder))
    if has & {"password", "token"}:
        found["GIT_ASKPASS"] = os.path.join(folder, "askpass")
    if "ca.crt" in has:
        found["GIT_SSL_CAINFO"] = os.path.join(folder, "ca.crt")
    return found


def _write(path: str, data: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def _names_in(url: str) -> list[str]:
    """The path of the address and its parts, the longest first; parts of 3 letters are in many words."""
    path = urlsplit(url).path
    parts = [part for text in (path, unquote(path)) for part in text.split("/")]
    names = {path, unquote(path), *parts, *(part.removesuffix(".git") for part in parts)}
    return sorted((name for name in names if len(name) > 3), key=len, reverse=True)


def _named(ref: str) -> str:
    """What was asked for, with a word about what looks like a part of a commit's name."""
    if COMMIT.fullmatch(ref):
        return f"commit {ref[:SHOWN_DIGITS]}"
    if re.fullmatch(r"[0-9a-f]{7,39}", ref):
        return f"branch or tag {ref}; a commit is named by all of its 40 digits"
    return f"branch or tag {ref}"


def _entries(path: str) -> Iterator[bytes]:
    """What NUL separates in a file."""
    rest = b""
    with open(path, "rb") as file:
        while piece := file.read(READ_BYTES):
            *whole, rest = (rest + piece).split(b"\0")
            yield from whole


def _size_bytes(folder: str) -> int:
    """Of all files below it, while they come and go."""
    total = 0
    for where, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total
