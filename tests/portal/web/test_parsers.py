"""A JSON body in which a field is given twice is refused in as much work as it is long."""

import json
import subprocess
import sys

from tests.repository.test_documents import ROOT

_LIMIT_S = 20
_PROGRAM = """
import io, django
django.setup()
from portal.errors import Refused
from portal.web.parsers import JsonParser

long = "k" * 1_500_000
body = '{"a": 1, "a": 2, "%s": [%s {"b": 1, "b": 2}], "c": {"d": [{"e": 1, "e": 2}]}}' % (long, "0," * 750_000)
try:
    JsonParser().parse(io.BytesIO(body.encode()))
except Refused as refused:
    import json
    print(json.dumps([error.field for error in refused.errors]))
"""


def test_a_long_name_is_not_said_again_for_each_value_in_it() -> None:
    # One that is said again takes more than a minute.
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, check=True, timeout=_LIMIT_S, stdout=-1
    ).stdout
    assert json.loads(told) == ["a", "c.d.0.e", f"{'k' * 80}.750000.b"]
