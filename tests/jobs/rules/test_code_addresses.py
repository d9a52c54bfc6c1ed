"""An address that a browser shows of a repository is told from the repository, with what to write."""

import pytest

from jobs.rules.code_addresses import cannot_be_unpacked, find_no_code, find_page

# Address -> git, ref and folder.
PAGES = {
    "https://github.com/org/repo/tree/main/examples": (
        "github.com/org/repo.git",
        "main",
        "examples",
    ),
    "https://github.com/org/repo/tree/v1.2/": ("github.com/org/repo.git", "v1.2", ""),
    "https://github.com/org/repo/blob/main/train.py": ("github.com/org/repo.git", "main", ""),
    "https://github.com/org/repo/blob/main/a/b%20c/t.py": (
        "github.com/org/repo.git",
        "main",
        "a/b c",
    ),
    "https://github.com/org/repo/raw/main/a/t.py": ("github.com/org/repo.git", "main", "a"),
    "https://github.com/org/repo/commit/0a1b": ("github.com/org/repo.git", "0a1b", ""),
    "https://github.com/org/repo/pull/17": ("github.com/org/repo.git", "", ""),
    "https://github.com/org/repo/issues": ("github.com/org/repo.git", "", ""),
    "https://git.firm.example/org/repo/tree/dev/x": ("git.firm.example/org/repo.git", "dev", "x"),
    "https://raw.githubusercontent.com/org/repo/main/a/t.py": (
        "github.com/org/repo.git",
        "main",
        "a",
    ),
    "https://gitlab.com/group/sub/repo/-/tree/main/examples": (
        "gitlab.com/group/sub/repo.git",
        "main",
        "examples",
    ),
    "https://gitlab.firm:8443/g/r/-/blob/main/t.py": ("gitlab.firm:8443/g/r.git", "main", ""),
    "https://codeberg.org/o/r/src/branch/main/lib": ("codeberg.org/o/r.git", "main", "lib"),
    "https://gitea.firm/o/r/src/tag/v1/lib/t.py": ("gitea.firm/o/r.git", "v1", "lib"),
    "https://bitbucket.org/team/repo/src/main/lib/": ("bitbucket.org/team/repo.git", "main", "lib"),
    "https://huggingface.co/org/model/tree/main": ("huggingface.co/org/model", "main", ""),
    "https://huggingface.co/datasets/o/d/blob/main/x/a.py": (
        "huggingface.co/datasets/o/d",
        "main",
        "x",
    ),
}
REPOSITORIES = [
    "https://github.com/org/repo",
    "https://github.com/org/repo/",
    "https://github.com/org/repo.git",
    "https://gitlab.com/group/sub/deep/repo",
    "https://gitlab.com/group/sub/tree/repo.git",
    "https://bitbucket.org/team/repo",
    "https://huggingface.co/org/model",
    "https://huggingface.co/datasets/o/d",
    "https://host/repo.git",
    "https://host/a/b/c/d/repo",
    "https://host/tree/blob.git",
    "https://dev.azure.com/org/project/_git/repo",
    "https://host",
]


@pytest.mark.parametrize("url", PAGES)
def test_a_page_names_the_repository(url: str) -> None:
    page = find_page(url)
    assert page is not None
    git, ref, folder = PAGES[url]
    assert (page.git, page.ref, page.folder) == (f"https://{git}", ref, folder)
    assert find_page(page.git) is None


@pytest.mark.parametrize("url", REPOSITORIES)
def test_a_repository_is_no_page(url: str) -> None:
    assert find_page(url) is None


# Address that is given for that of code -> the repository's.
NO_CODE = {
    **{
        url: git
        for url, (git, _ref, _folder) in PAGES.items()
        if "raw" not in url and "/git.firm" not in url and "/gitea.firm" not in url
    },
    "https://github.com/org/repo": "github.com/org/repo.git",
    "http://github.com/org/repo/": "github.com/org/repo.git",
    "https://github.com/org/archive": "github.com/org/archive.git",
    "https://github.com/org/repo.git": "github.com/org/repo.git",
    "https://github.com/org/repo/releases/tag/v1": "github.com/org/repo.git",
    "https://github.com/org/repo/pull/17/files": "github.com/org/repo.git",
    "https://github.com/org/repo/pull/17/files/0a1b": "github.com/org/repo.git",
    "https://github.com/org/repo/wiki": "github.com/org/repo.git",
    "https://github.com/org/repo?tab=readme-ov-file#use": "github.com/org/repo.git",
    "https://gitlab.com/group/sub/deep/repo": "gitlab.com/group/sub/deep/repo.git",
    "https://gitlab.com/group/repo/-/merge_requests/3": "gitlab.com/group/repo.git",
    "https://gitlab.com/group/repo/-/jobs/5": "gitlab.com/group/repo.git",
    "https://bitbucket.org/team/repo/downloads/": "bitbucket.org/team/repo.git",
    "https://bitbucket.org/team/repo": "bitbucket.org/team/repo.git",
    "https://bitbucket.org/team/repo/pull-requests/2": "bitbucket.org/team/repo.git",
    "https://codeberg.org/o/r/issues/1": "codeberg.org/o/r.git",
    "https://gitee.com/o/r": "gitee.com/o/r.git",
    "https://huggingface.co/org/model": "huggingface.co/org/model",
    "https://huggingface.co/datasets/o/d/discussions": "huggingface.co/datasets/o/d",
    "https://host:8443/a/repo.git": "host:8443/a/repo.git",
}
CODE = [
    "https://github.com/org/repo/raw/main/t.py",
    "https://github.com/org/repo/archive/refs/heads/main.zip",
    "https://github.com/org/repo/releases/download/v1/code.tar.gz",
    "https://github.com/org/repo/releases/latest/download/code.zip",
    "https://github.com/org/repo/zipball/main",
    "https://github.com/user-attachments/files/1/code.zip",
    "https://raw.githubusercontent.com/org/repo/main/t.py",
    "https://codeload.github.com/org/repo/zip/main",
    "https://gitlab.com/group/sub/repo/-/raw/main/t.py",
    "https://gitlab.com/group/repo/-/archive/main/repo-main.tar.gz",
    "https://gitlab.com/group/repo/-/jobs/artifacts/main/download?job=build",
    "https://gitlab.com/group/repo/-/releases/permalink/latest/downloads/code.zip",
    "https://gitlab.com/group/sub/repo/uploads/0a1b/code.zip",
    "https://gitlab.com/group/repo/repository/archive.zip?ref=main",
    "https://github.com/org/repo/files/1/code.zip",
    "https://gitlab.com/api/v4/projects/1/repository/archive.zip",
    "https://bitbucket.org/team/repo/raw/main/t.py",
    "https://bitbucket.org/team/repo/get/main.zip",
    "https://bitbucket.org/team/repo/downloads/code.zip",
    "https://codeberg.org/o/r/raw/branch/main/t.py",
    "https://codeberg.org/o/r/archive/main.zip",
    "https://gitee.com/o/r/repository/archive/main.zip",
    "https://huggingface.co/org/model/resolve/main/t.py",
    "https://huggingface.co/gpt2/resolve/main/t.py",
    "https://huggingface.co/datasets/o/d/resolve/main/t.py",
    "https://host/org/repo",
    "https://host/org/repo/tree/main/t.py",
    "https://host",
]


@pytest.mark.parametrize("url", NO_CODE)
def test_what_a_repository_shows_is_no_code(url: str) -> None:
    page = find_no_code(url)
    assert page is not None
    assert page.git == f"https://{NO_CODE[url]}"
    assert find_page(page.git) is None


@pytest.mark.parametrize("url", CODE)
def test_what_gives_code_is_none_of_these(url: str) -> None:
    assert find_no_code(url) is None


@pytest.mark.parametrize("name", ["a.rar", "A.RAR", "a.7z", "a.tar.zst", "a.tar.Z", "a.lz4"])
def test_some_archives_cannot_be_unpacked(name: str) -> None:
    assert cannot_be_unpacked(name)
    assert not any(map(cannot_be_unpacked, [f"{name}.zip", "a.tar.xz", "a.tgz", "rar", "a.py"]))
