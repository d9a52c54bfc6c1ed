"""Brings the user's code into the working directory: an upload, a web address, a commit, or a folder of /data.

Archives are unpacked by `unpack.py`; a lone top folder is stripped; one plain file is taken as it
is. Every refusal has a reason code (see `jobs/pod/protocol/codes.py`) and a sentence.
"""

import base64
import hashlib
import http.client
import os
import re
import secrets
import shutil
import stat
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from jobs.pod import git, unpack
from jobs.pod.addresses import TRIES, check_url, pause_s, shown, unreachable
from jobs.pod.errors import PodError, PortalError
from jobs.pod.portal_client import PortalClient, retry_after_s, starting_budget
from jobs.pod.protocol import codes

BUNDLE_MAX_BYTES = 512 * 1024**2  # unless the configuration says otherwise
URL_TIMEOUT_S = 30
URL_TOTAL_S = 900
MAX_REDIRECTS = 5
PIECE_BYTES = 256 * 1024


def bring(config: dict[str, Any], portal: PortalClient, workspace: str) -> str:
    """Fills the empty working directory; returns a sentence about what came.

    Raises:
        PodError: with reason and sentence.
        OSError: the working directory cannot be written.
    """
    source = config.get("source")
    limit_bytes = int(config["limits"].get("bundle_bytes") or BUNDLE_MAX_BYTES)
    if not source:
        return "no code was requested; the working directory is empty"
    if "git" in source:
        return git.bring(config, portal, workspace, limit_bytes)
    if "path" in source:
        return copy_folder(str(source["path"]), str(config["data_dir"]), workspace)
    download = os.path.join(workspace, f".homeport-{secrets.token_hex(8)}")
    if "bundle" in source:
        name, digest = _download_bundle(config, portal, download, limit_bytes)
    else:
        name, digest = _download_url(str(source["url"]), download, limit_bytes)
        wanted = str(source.get("sha256") or digest)
        if digest != wanted:
            text = f"what {shown(source['url'])} answered has the SHA-256 {digest}"
            raise PodError(codes.SHA256_MISMATCH, f"{text}, asked for is {wanted}")
    return _place(download, name, workspace, limit_bytes)


def _place(download: str, name: str, workspace: str, limit_bytes: int) -> str:
    """Unpacks what came, or gives it its name."""
    size = os.path.getsize(download)
    if size > limit_bytes:
        raise _too_large(limit_bytes)
    kind = unpack.kind_of(download, name)
    if kind == "plain":
        os.rename(download, os.path.join(workspace, name))
        return f"the code is {name} ({size} bytes)"
    unpacked = download + ".unpacked"
    os.mkdir(unpacked)
    try:
        count = unpack.unpack(download, kind, unpacked)
    except PodError as error:
        what = "cannot be unpacked" if error.reason == codes.BUNDLE_BROKEN else "is not unpacked"
        raise PodError(error.reason, f"{name} {what}: {error}") from error
    finally:
        os.unlink(download)
    _lift(unpacked, workspace)
    return f"the code is {name} ({size} bytes, {count} files)"


def _lift(unpacked: str, workspace: str) -> None:
    """Moves what was unpacked to the working directory, without a lone top folder."""
    top = unpacked
    names = os.listdir(unpacked)
    if len(names) == 1 and os.path.isdir(os.path.join(unpacked, names[0])):
        top = os.path.join(unpacked, names[0])
    for name in os.listdir(top):
        os.rename(os.path.join(top, name), os.path.join(workspace, name))
    shutil.rmtree(unpacked)


def safe_name(name: str, otherwise: str) -> str:
    """The last part of a path as a plain file name; `otherwise` where nothing is left of it."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = re.sub(r"[\x00-\x1f\x7f-\x9f/]", "", last).strip()
    cleaned = cleaned.encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
    return otherwise if cleaned in ("", ".", "..") or cleaned.startswith(".homeport") else cleaned


def _too_large(limit_bytes: int) -> PodError:
    text = f"the code is larger than {limit_bytes // 1024**2} MiB"
    return PodError(codes.BUNDLE_TOO_LARGE, f"{text}; put large data on the data volume instead")


# --- an upload ------------------------------------------------------------------------------------


def _download_bundle(
    config: dict[str, Any], portal: PortalClient, path: str, limit_bytes: int
) -> tuple[str, str]:
    budget = starting_budget(config)

    def once() -> tuple[str, str]:
        answer = portal.post(f"jobs/{config['id']}/source/", {})
        request = urllib.request.Request(answer["url"], headers=answer.get("headers") or {})
        # The portal and its store are never behind a proxy.
        opener = _opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=URL_TIMEOUT_S) as response:
                digest = _save(response, path, limit_bytes)
        except urllib.error.HTTPError as error:
            wait_s = retry_after_s(error.headers.get("Retry-After"))
            text = f"the object store answered {error.code}"
            raise PortalError(text, retry_after_s=wait_s) from error
        except (OSError, http.client.HTTPException) as error:
            raise PortalError(f"the object store does not answer: {error}") from error
        if digest != answer["sha256"]:
            # Cut off, or changed on the way: worth another try before it is called wrong.
            raise PortalError(f"what came has the SHA-256 {digest}, not {answer['sha256']}")
        return safe_name(str(answer["file_name"]), "bundle"), digest

    try:
        name, digest = budget.keep_trying(once)
    except PortalError as error:
        is_other = not error.status and "SHA-256" in str(error)
        reason = codes.SHA256_MISMATCH if is_other else codes.SOURCE_UNREACHABLE
        raise PodError(reason, f"the upload cannot be read: {error}") from error
    return name, digest


def _save(response: Any, path: str, limit_bytes: int) -> str:
    """Writes what comes to a file, within limits of size and time; its SHA-256."""
    digest = hashlib.sha256()
    size = 0
    until = time.monotonic() + URL_TOTAL_S
    with open(path, "wb") as file:
        while piece := response.read(PIECE_BYTES):
            size += len(piece)
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            if time.monotonic() > until:
                raise unreachable(f"the code was not fetched within {URL_TOTAL_S} s")
            digest.update(piece)
            file.write(piece)
    # Reading in pieces does not notice by itself that the connection ended too early.
    announced = response.headers.get("Content-Length")
    if announced is not None and size != int(announced):
        raise http.client.IncompleteRead(b"", int(announced) - size)
    return digest.hexdigest()


# --- a web address --------------------------------------------------------------------------------


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, and only to where a first address might lead as well."""

    max_redirections = MAX_REDIRECTS
    max_repeats = 2

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(proxies: urllib.request.ProxyHandler) -> urllib.request.OpenerDirector:
    # Made by hand: the default one also opens file:, ftp: and data: addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        proxies,
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "homeport")]
    return opener


def _request(url: str) -> urllib.request.Request:
    """A request; user and password of the address go into a header, and to its own host only."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host, fragment="")))
    if at:
        word = base64.b64encode(unquote(userinfo).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {word}")
    return request


def _download_url(url: str, path: str, limit_bytes: int) -> tuple[str, str]:
    check_url(url)
    opener = _opener(urllib.request.ProxyHandler())
    problem = ""
    for attempt in range(TRIES):
        time.sleep(pause_s(attempt))
        try:
            with opener.open(_request(url), timeout=URL_TIMEOUT_S) as response:
                digest = _save(response, path, limit_bytes)
                name = safe_name(unquote(urlsplit(url).path), "download")
                return name, digest
        except urllib.error.HTTPError as error:
            problem = f"{shown(url)} answered {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            problem = f"{shown(url)} cannot be reached: {why}"
    raise unreachable(problem)


# --- a folder of the data volume ------------------------------------------------------------------


def copy_folder(path: str, data_dir: str, workspace: str) -> str:
    """Copies code from the data volume, so that later changes there do not reach a running job.

    Links within the volume stay links if they lead to folders (data sets), and become the file if
    they lead to one.

    Raises:
        PodError: source_unreachable, source_outside_volume, bundle_too_large.
    """
    base = os.path.realpath(data_dir)
    real = os.path.realpath(path)
    if not _is_below(real, base):
        text = f"{path} does not lie on the data volume ({data_dir})"
        raise PodError(codes.SOURCE_OUTSIDE_VOLUME, text)
    if os.path.isfile(real):
        shutil.copy(real, os.path.join(workspace, os.path.basename(path)))
        return f"the code is {path}"
    if not os.path.isdir(real):
        text = f"there is no {path} on the data volume"
        raise unreachable(text)
    copier = _Copier(base, path)
    copier.copy(real, workspace)
    return f"the code is {path} ({copier.count} files)"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class _Copier:
    """Copies a folder, and counts."""

    def __init__(self, base: str, shown: str) -> None:
        self._base = base
        self._shown = shown
        self._left_bytes = codes.MAX_UNPACKED_BYTES
        self.count = 0

    def copy(self, folder: str, target: str) -> None:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            self.count += 1
            if self.count > codes.MAX_MEMBERS:
                raise self._too_much()
            to = os.path.join(target, entry.name)
            if entry.is_symlink():
                self._copy_link(entry.path, to)
            elif entry.is_dir():
                os.mkdir(to)
                self.copy(entry.path, to)
            else:
                self._copy_file(entry.path, to)

    def _copy_link(self, path: str, to: str) -> None:
        real = os.path.realpath(path)
        if not _is_below(real, self._base):
            raise PodError(
                codes.SOURCE_OUTSIDE_VOLUME, f"{path} is a link to {real}, outside the data volume"
            )
        if os.path.isdir(real):
            os.symlink(real, to)
        else:
            self._copy_file(real, to)

    def _copy_file(self, path: str, to: str) -> None:
        try:
            about = os.stat(path)
        except FileNotFoundError:
            return  # a link to nothing, or gone meanwhile
        if not stat.S_ISREG(about.st_mode):
            return  # a socket or a pipe that some program left
        self._left_bytes -= about.st_size
        if self._left_bytes < 0:
            raise self._too_much()
        shutil.copy(path, to)

    def _too_much(self) -> PodError:
        return PodError(
            codes.BUNDLE_TOO_LARGE,
            f"{self._shown} holds more than {codes.MAX_MEMBERS} files or "
            f"{codes.MAX_UNPACKED_BYTES // 1024**3} GiB, too much to copy; choose a smaller "
            f"folder, or none and start the program as {self._shown}/...",
        )
