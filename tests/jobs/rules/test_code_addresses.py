"""An address that a browser shows of a repository is told from the repository, with what to write."""

import pytest

from jobs.rules.code_addresses import cannot_be_unpacked, find_page

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


@pytest.mark.parametrize("name", ["a.rar", "A.RAR", "a.7z", "a.tar.zst", "a.tar.Z", "a.lz4"])
def test_some_archives_cannot_be_unpacked(name: str) -> None:
    assert cannot_be_unpacked(name)
    assert not any(map(cannot_be_unpacked, [f"{name}.zip", "a.tar.xz", "a.tgz", "rar", "a.py"]))
