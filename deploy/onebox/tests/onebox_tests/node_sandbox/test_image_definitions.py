"""References and definitions of images: which there are, and what is said of one that is unknown or wrong."""

from __future__ import annotations

import re

import pytest

from onebox.node.imagefile import (
    SHIPPED,
    DefinitionError,
    load_definitions,
    normalize_reference,
)
from onebox.node.images import Images

from .wheels import SLIM, failure

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("python:3.12-slim", "not found. Did you mean python:3.11-slim?"),
        (
            "tensorflow:2.21",
            "not found. Did you mean tensorflow/tensorflow:2.21.0?",
        ),
        (
            "quay.io/0",
            "not found. There are lab/jax:0.10, lab/mpich:5.0, lab/openmpi:5.0 and 5 more.",
        ),
    ],
)
async def test_an_unknown_image_is_refused_with_what_may_have_been_meant(home, reference, words):
    error = await failure(Images(home), reference)
    assert error.reason == "ErrImagePull"
    assert error.message == words


@pytest.mark.parametrize("reference", ["", "Nginx", "a b", "x:", "/x", "x//y", "-x", "x@sha256:1"])
async def test_a_malformed_reference_is_refused(home, reference):
    error = await failure(Images(home), reference)
    assert error.reason == "InvalidImageName"


async def test_an_operators_definition_wins(home):
    (home / "images" / "own.toml").write_text(
        '[[image]]\nreference = "python:3.11-slim"\nprograms = ["sh"]\n'
    )
    image = await Images(home).ensure(SLIM, lambda _line: None)
    assert image.env["PATH"].endswith("/bin")
    assert "/usr/bin" not in image.env["PATH"]


async def test_a_wrong_definition_file_costs_only_itself(home):
    (home / "images" / "bad.toml").write_text("[[image]\n")
    images = Images(home)
    assert SLIM in images.references()
    error = await failure(images, "own:1")
    assert error.message.endswith(" Definitions that are wrong are left out: bad.toml.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "nothing else"),
        ("[[image]]\n", "has no reference"),
        ('[[image]]\nreference = "A"\n', '"A" is not an image reference'),
        ('[[image]]\nreference = "a"\nfoo = 1\n', 'unknown field "foo"'),
        ('[[image]]\nreference = "a"\nrequirements = "none.txt"\n', "none.txt"),
        ('[[image]]\nreference = "a"\nmounts = [{ source = "x" }]\n', "path"),
    ],
)
def test_a_wrong_definition_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=r"own\.toml") as caught:
        load_definitions(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("docker.io/library/python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("tensorflow/tensorflow:2.21.0", "docker.io/tensorflow/tensorflow:2.21.0"),
        ("quay.io/jupyter/x:2026-11-01", "quay.io/jupyter/x:2026-11-01"),
        ("localhost/x", "localhost/x:latest"),
        ("registry.lab:5000/a/b_c:1", "registry.lab:5000/a/b_c:1"),
        ("registry:5000/a", "registry:5000/a:latest"),
        ("a@sha256:" + "0" * 64, "docker.io/library/a@sha256:" + "0" * 64),
        ("UPPER/x", None),
        ("x:y/z", None),
    ],
)
def test_references_have_a_full_form(reference, full):
    assert normalize_reference(reference) == full


def test_the_shipped_images_are_there_and_pinned():
    definitions = load_definitions(SHIPPED)
    assert {definition.reference for definition in definitions.values()} == {
        "python:3.11-slim",
        "tensorflow/tensorflow:2.21.0",
        "quay.io/jupyter/tensorflow-notebook:2026-11-01",
        "lab/jax:0.10",
        "lab/mpich:5.0",
        "lab/openmpi:5.0",
        "lab/torch:1.13-cpu",
        "scratch:shell",
    }
    for definition in definitions.values():
        for line in definition.requirements.splitlines():
            assert re.match(r"[a-z0-9._-]+==[0-9][^ ;]*( ; .*)?$", line), line
    tensorflow = definitions["docker.io/tensorflow/tensorflow:2.21.0"].requirements
    notebook = definitions["quay.io/jupyter/tensorflow-notebook:2026-11-01"].requirements
    assert "tensorflow-cpu==2.21.0" in tensorflow
    assert set(tensorflow.splitlines()) <= set(notebook.splitlines())
    assert "jupyterlab==4.6.6" in notebook
