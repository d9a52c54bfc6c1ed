"""Where a token may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport_client.address import is_this_machine, parse_address
from homeport_client.exits import ClientError

# What is typed, and what it means.
UNDERSTOOD = """
https://homeport.lab  https://homeport.lab
https://homeport.lab/  https://homeport.lab
https://homeport.lab/trainings/1/?x=1#y  https://homeport.lab
HTTPS://Homeport.Lab:443  https://homeport.lab
https://homeport.lab:8443  https://homeport.lab:8443
homeport.lab  https://homeport.lab
homeport.lab:8443  https://homeport.lab:8443
localhost:8000  http://localhost:8000
http://localhost  http://localhost
http://127.0.0.1:8000  http://127.0.0.1:8000
http://[::1]:8000  http://[::1]:8000
https://[2001:db8::1]  https://[2001:db8::1]
http://x.localhost:1  http://x.localhost:1
"""
UNENCRYPTED = """
http://homeport.lab http://10.0.0.5:8000 http://127.0.0.1.evil.example
http://localhost.evil.example http://0.0.0.0:8000 http://127.1.evil:1 http://[::]
"""
NONE = """
https:// ftp://x https://x:99999 https://x:y file:///etc https://a@b https://ada:secret@lab
https://[::1 https://ex\u0430mple
"""


@pytest.mark.parametrize("row", UNDERSTOOD.strip().splitlines())
def test_an_address_is_understood(row: str) -> None:
    typed, url = row.split()
    assert parse_address(typed) == url


@pytest.mark.parametrize("text", UNENCRYPTED.split())
def test_no_token_goes_unencrypted_to_another_machine(text: str) -> None:
    with pytest.raises(ClientError, match="unencrypted"):
        parse_address(text)


@pytest.mark.parametrize("text", [*NONE.split(), "", " ", "https://a b", "https://\x1b[31m"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_address(text)
    assert "secret" not in caught.value.text + caught.value.next_step
    assert "\x1b" not in caught.value.text


@given(st.text())
def test_any_text_gives_an_address_or_a_refusal(text: str) -> None:
    try:
        url = parse_address(text)
    except ClientError:
        return
    scheme, _, rest = url.partition("://")
    host = rest if rest.startswith("[") else rest.partition(":")[0]
    assert scheme == "https" or is_this_machine(host.strip("[]").partition("]")[0])
    assert parse_address(url) == url
