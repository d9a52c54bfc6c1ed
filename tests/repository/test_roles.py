"""Who has which role is asked in `tenants/policy.py` alone: everybody else names a verb of its table."""

import re

from tests.repository.test_documents import ROOT, tracked
from tests.repository.test_ratchet import sources

POLICY = "tenants/policy.py"
ROLES = re.compile(
    r"\b(is_admin|is_lead|leads_teams)\b|\b(Account|Tenant)?Role\.[A-Z]|\btoken_scope (==|!=|in|not)"
)
ON_PAGES = re.compile(r"\.(is_admin|is_lead|leads_teams)\b")


def test_nobody_else_asks_for_a_role() -> None:
    texts = [(str(name), text, ROLES) for name, text in sources().items() if str(name) != POLICY]
    pages = [path for path in tracked() if path.is_relative_to(ROOT / "templates")]
    texts += [(str(path.relative_to(ROOT)), path.read_text(), ON_PAGES) for path in pages]
    found = [
        f"{name}: {line.strip()}"
        for name, text, pattern in texts
        for line in text.splitlines()
        if pattern.search(line)
    ]
    assert not found
    assert ROLES.search((ROOT / POLICY).read_text())
