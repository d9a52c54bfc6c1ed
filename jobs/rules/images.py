"""Which images a cluster can start, as far as its nodes say. Pure.

A kubelet pulls from registries and says nothing; nodes of the embedded cluster have the images that are
defined there, and say of each what their machine lacks for it.
"""

from collections.abc import Collection, Mapping

_DEFAULT_REGISTRY = "docker.io"
_UNKNOWN = "is not an image that this cluster has"


def full_reference(image: str) -> str:
    """The full form: python -> docker.io/library/python:latest.

    https://github.com/distribution/reference/blob/main/normalize.go
    """
    first, slash, rest = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        registry, path = first, rest
    else:
        registry, path = _DEFAULT_REGISTRY, image
    if registry == f"index.{_DEFAULT_REGISTRY}":
        registry = _DEFAULT_REGISTRY
    if registry == _DEFAULT_REGISTRY and "/" not in path:
        path = f"library/{path}"
    is_tagged = "@" in path or ":" in path.rpartition("/")[2]
    return f"{registry}/{path}" if is_tagged else f"{registry}/{path}:latest"


def lack_of(image: str, nodes: Collection[Mapping[str, str] | None]) -> str:
    """Why no node can start an image, as a sentence; "": one can, or may.

    Args:
        nodes: of each node what it says, by full references: what it lacks, "" for nothing; None: it
            pulls from registries.
    """
    full, lacks = full_reference(image), []
    for said in nodes:
        lack = "" if said is None else said.get(full, _UNKNOWN)
        if not lack:
            return ""
        lacks.append(lack)
    told = [lack for lack in lacks if lack != _UNKNOWN] or lacks
    return f"{image} cannot start here: it {told[0]}." if told else ""
