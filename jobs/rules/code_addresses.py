"""Addresses of code that people copy from a browser: pages of a repository, which are none. Pure.

The paths are those of https://docs.github.com/en/repositories, GitLab (`/-/`), Gitea and Forgejo (`/src/branch/`), Bitbucket
(`/src/`) and Hugging Face (`/resolve/`).
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_KINDS = "tree|blob|raw|blame|edit|commits?|resolve"
_NAMES = r"(?P<repository>/(?:(?:datasets|spaces)/)?[^/]+/[^/]+)"
_PAGES = (
    re.compile(rf"(?P<repository>/.+?)/-/(?P<kind>{_KINDS})/(?P<ref>[^/]+)(?P<path>/.*)?"),
    re.compile(
        rf"{_NAMES}/(?P<kind>src|raw|commits)/(?:branch|tag|commit)/(?P<ref>[^/]+)(?P<path>/.*)?"
    ),
    re.compile(rf"{_NAMES}/(?P<kind>{_KINDS})/(?P<ref>[^/]+)(?P<path>/.*)?"),
)
_BITBUCKET = re.compile(rf"{_NAMES}/(?P<kind>src|raw|commits)/(?P<ref>[^/]+)(?P<path>/.*)?")
_RAW = re.compile(r"(?P<repository>/[^/]+/[^/]+)/(?:refs/heads/)?(?P<ref>[^/]+)(?P<path>/.*)?")
_RAW_HOST = "raw.githubusercontent.com"
_TWO_NAMES = frozenset({"github.com", "www.github.com", "bitbucket.org", "codeberg.org"})
_HUGGING_FACE = "huggingface.co"
_USUAL_HOSTS = _TWO_NAMES | {"gitlab.com", _HUGGING_FACE, "gitee.com"}
# What stands below a repository in the address of a file or an archive.
_DOWNLOAD = re.compile(
    r"(?:archive|tarball|zipball|repository|raw|media|resolve|get|downloads|files|uploads|attachments|attach_files"
    r"|package_files)/.+|releases/(?:.+/)?downloads?/.+|jobs/.+/(?:raw|download)(?:/.*)?"
)
_OF_GITLAB = re.compile(
    r"(?P<repository>/.+?)/(?:-/(?P<page>.+)|(?P<other>(?:uploads|repository)/.+))"
)
# What stands first in an address that is about no repository.
_NO_OWNERS = frozenset(
    [
        "-",
        "api",
        "blog",
        "collections",
        "docs",
        "explore",
        "login",
        "marketplace",
        "orgs",
        "papers",
        "search",
        "settings",
        "sponsors",
        "topics",
        "user-attachments",
    ]
)
_FILES = frozenset({"blob", "raw", "blame", "edit", "resolve"})
_UNKNOWN_ARCHIVES = (
    *(".rar", ".7z", ".zst", ".tzst", ".lz", ".lz4", ".lzh", ".lha", ".z", ".cab", ".arj", ".ace"),
    *(".iso", ".dmg", ".sit", ".zipx"),
)


@dataclass(frozen=True)
class RepositoryPage:
    """What a page in a browser is about.

    Attributes:
        git: the repository's own address.
        ref: "": the page names none.
        path: of the folder or file; "": the whole.
        is_file: whether it is a file's.
        is_raw: whether the address gives the file's own bytes.
        is_sure: whether no other server has such an address for something else.
    """

    git: str
    ref: str = ""
    path: str = ""
    is_file: bool = False
    is_raw: bool = False
    is_sure: bool = False

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0] if self.is_file else self.path


def find_page(url: str) -> RepositoryPage | None:
    """What a page of a repository is about; None: it is no such page, as far as the address says.

    A repository whose address ends in .git is none, whatever its folders are called.
    """
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), unquote(parts.path).rstrip("/")
    if path.endswith(".git"):
        return None
    patterns = [*_PAGES, *([_BITBUCKET] if host == "bitbucket.org" else [])]
    found = next((match for one in patterns if (match := one.fullmatch(path))), None)
    if found is None and host == _RAW_HOST:
        found = _RAW.fullmatch(path)
        host, kind = "github.com", "raw"
    elif found is not None:
        kind = found["kind"]
    if found is None:
        names = path.split("/")[1:]
        is_other = host in _TWO_NAMES and len(names) > 2 and not path.startswith("/scm/")
        return RepositoryPage(f"https://{host}/{names[0]}/{names[1]}.git") if is_other else None
    suffix = "" if host == _HUGGING_FACE else ".git"
    port = f":{parts.port}" if parts.port else ""
    below = (found["path"] or "").strip("/")
    # Gitea and Bitbucket have one word for both; a file's name mostly has a dot in it.
    is_file = kind in _FILES or (kind == "src" and "." in below.rpartition("/")[2])
    return RepositoryPage(
        git=f"https://{host}{port}{found['repository']}{suffix}",
        ref=found["ref"],
        path="" if kind.startswith("commit") else below,
        is_file=is_file and bool(below),
        is_raw=kind in {"raw", "resolve"},
        is_sure=host in _USUAL_HOSTS or "/-/" in path,
    )


def find_no_code(url: str) -> RepositoryPage | None:
    """What a repository's own address, or that of a page about one, is about; None: it may well give code.

    A web server has nothing but a page there, whatever program asks for it.
    """
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), unquote(parts.path).rstrip("/")
    if path.endswith(".git"):
        return RepositoryPage(f"https://{parts.netloc}{path}")
    page = find_page(url)
    if page is not None and page.ref:
        return page if page.is_sure and not page.is_raw else None
    names = path.split("/")[1:]
    if host not in _USUAL_HOSTS or len(names) < 2 or names[0] in _NO_OWNERS:
        return None
    repository, below = _split(host, path)
    suffix = "" if host == _HUGGING_FACE else ".git"
    is_download = _DOWNLOAD.fullmatch(below)
    return None if is_download else RepositoryPage(f"https://{host}{repository}{suffix}")


def _split(host: str, path: str) -> tuple[str, str]:
    """A repository's path on a usual host, and what follows it."""
    if host == "gitlab.com":  # of any depth
        found = _OF_GITLAB.fullmatch(path)
        return (found["repository"], found["page"] or found["other"]) if found else (path, "")
    names = path.split("/")
    count = 3
    if host == _HUGGING_FACE:  # where some have no owner
        count = 4 if names[1] in {"datasets", "spaces"} else 2 if names[2] == "resolve" else 3
    return "/".join(names[:count]), "/".join(names[count:])


def cannot_be_unpacked(name: str) -> bool:
    """Whether a name is that of an archive of a kind that no replica unpacks."""
    return name.lower().endswith(_UNKNOWN_ARCHIVES)
