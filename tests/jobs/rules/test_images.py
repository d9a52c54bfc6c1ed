"""What nodes say of their images, and what follows for an image that people name."""

import pytest

from jobs.rules.images import full_reference, lack_of

TORCH = "docker.io/lab/torch:1.13-cpu"
NEEDS = "needs what this machine does not have; install it: apt-get install python3-torch"
UNKNOWN = "is not an image that this cluster has"


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("docker.io/python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("index.docker.io/lab/x", "docker.io/lab/x:latest"),
        ("lab/torch:1.13-cpu", TORCH),
        ("localhost/x", "localhost/x:latest"),
        ("gpu:5000/x", "gpu:5000/x:latest"),
        ("quay.io/a/b:1", "quay.io/a/b:1"),
        (f"a/b@sha256:{'0' * 64}", f"docker.io/a/b@sha256:{'0' * 64}"),
        (f"a/b:1@sha256:{'0' * 64}", f"docker.io/a/b:1@sha256:{'0' * 64}"),
    ],
)
def test_a_reference_has_one_full_form(image: str, full: str) -> None:
    assert full_reference(image) == full
    assert full_reference(full) == full


@pytest.mark.parametrize(
    ("nodes", "lack"),
    [
        ([], ""),
        ([None], ""),
        ([{TORCH: ""}], ""),
        ([{TORCH: NEEDS}], NEEDS),
        ([{TORCH: NEEDS}, {TORCH: ""}], ""),
        ([{TORCH: NEEDS}, None], ""),
        ([{}], UNKNOWN),
        ([{}, {TORCH: NEEDS}], NEEDS),
        ([{}, {TORCH: ""}], ""),
    ],
)
def test_an_image_lacks_something_where_no_node_can_start_it(
    nodes: list[dict[str, str] | None], lack: str
) -> None:
    told = lack_of("lab/torch:1.13-cpu", nodes)
    assert told == (f"lab/torch:1.13-cpu cannot start here: it {lack}." if lack else "")
