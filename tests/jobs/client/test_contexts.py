"""Tokens on disk: private, whole, and only for addresses that may have them."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from homeport_client import contexts
from homeport_client.contexts import Context, Contexts, choose, config_folder, load, save
from homeport_client.exits import NOT_SIGNED_IN, ClientError
from homeport_client.terminal import Terminal

LAB = Context("https://homeport.lab", "hp_secret", "ada")
HERE = Context("http://localhost:8000", "hp_other", "lin")


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal(said: io.StringIO) -> Terminal:
    return Terminal(io.StringIO(), said)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_saved_is_read_again(tmp_path: Path, terminal: Terminal) -> None:
    saved = Contexts("lab", {"lab": LAB, "here": HERE})
    save(tmp_path / "homeport", saved)
    assert load(tmp_path / "homeport", terminal) == saved
    assert load(tmp_path / "nowhere", terminal) == Contexts()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_can_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        save(tmp_path / "homeport", Contexts("lab", {"lab": LAB}))
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "homeport") == 0o700
    assert mode_of(tmp_path / "homeport" / contexts.FILE_NAME) == 0o600
    assert os.listdir(tmp_path / "homeport") == [contexts.FILE_NAME], "no leftovers"


def test_a_file_that_others_can_read_is_made_private_with_a_warning(
    tmp_path: Path, terminal: Terminal, said: io.StringIO
) -> None:
    save(tmp_path, Contexts("lab", {"lab": LAB}))
    path = tmp_path / contexts.FILE_NAME
    path.chmod(0o644)
    assert load(tmp_path, terminal).by_name == {"lab": LAB}
    assert mode_of(path) == 0o600
    assert "others on this machine could read your tokens" in said.getvalue()
    assert "hp_secret" not in said.getvalue()


NO_JSON = ["", "{", "\xff", "[" * 100_000]
NO_CONTEXTS = ["[]", "null", '{"current": "a"}', '{"current": "a", "contexts": [1]}']


@pytest.mark.parametrize("text", [*NO_JSON, *NO_CONTEXTS, '{"current": "a", "contexts": {"a": 3}}'])
def test_a_broken_file_says_so(tmp_path: Path, terminal: Terminal, text: str) -> None:
    path = tmp_path / contexts.FILE_NAME
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o600)
    with pytest.raises(ClientError, match=r"contexts\.json") as caught:
        load(tmp_path, terminal)
    assert "sign in again" in caught.value.next_step
    assert path.read_bytes() == text.encode("latin-1"), "nothing is lost"


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, terminal: Terminal) -> None:
    save(tmp_path, Contexts("lab", {"lab": LAB}))
    broken = Context("https://x", object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        save(tmp_path, Contexts("x", {"x": broken}))
    assert load(tmp_path, terminal).by_name == {"lab": LAB}
    assert os.listdir(tmp_path) == [contexts.FILE_NAME]


def test_the_folder_is_that_of_xdg() -> None:
    assert config_folder({"XDG_CONFIG_HOME": "/x"}) == Path("/x/homeport")
    for relative in ("", "x", "../x"):
        assert config_folder({"XDG_CONFIG_HOME": relative}) == Path.home() / ".config/homeport"


def test_which_context_is_meant() -> None:
    saved = Contexts("lab", {"lab": LAB, "here": HERE})
    assert choose(saved, None, {}) == ("lab", LAB)
    assert choose(saved, "here", {}) == ("here", HERE)
    assert choose(saved, None, {"HOMEPORT_CONTEXT": "here"}) == ("here", HERE)
    given = {"HOMEPORT_URL": "https://ci.lab", "HOMEPORT_TOKEN": " hp_ci\n"}
    assert choose(Contexts(), None, given)[1] == Context("https://ci.lab", "hp_ci")
    assert choose(saved, "here", given)[1] == HERE, "a flag counts more"
    with pytest.raises(ClientError, match="no context 'x'"):
        choose(saved, "x", {})
    with pytest.raises(ClientError, match="HOMEPORT_URL is not"):
        choose(saved, None, {"HOMEPORT_TOKEN": "hp_ci"})
    with pytest.raises(ClientError) as caught:
        choose(Contexts(), None, {})
    assert caught.value.code == NOT_SIGNED_IN


def test_an_edited_file_cannot_send_the_token_unencrypted(
    tmp_path: Path, terminal: Terminal
) -> None:
    text = {"current": "a", "contexts": {"a": {"url": "http://homeport.lab", "token": "hp_x"}}}
    (tmp_path / contexts.FILE_NAME).write_text(json.dumps(text))
    with pytest.raises(ClientError, match="unencrypted"):
        choose(load(tmp_path, terminal), None, {})
