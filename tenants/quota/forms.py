"""The form that changes a tenant's quota: for leads on the team page, for admins on theirs."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.errors import Refused
from portal.web.format import amount_text as shown_amount
from tenants import policy
from tenants.models import Tenant, User
from tenants.quota.rules import COLUMNS, BudgetLine, amount_text, budget_lines
from tenants.quota.serializers import QuotaSerializer

TITLES = {
    "cpu": gettext_lazy("CPU cores"),
    "memory": gettext_lazy("Memory"),
    "gpu": gettext_lazy("GPUs"),
    "pods": gettext_lazy("Pods"),
    "nodeports": gettext_lazy("Open ports of notebooks and TensorBoards"),
}


class QuotaForm:
    """What is typed, what is wrong with it, and what can be said beside each field.

    Attributes:
        values: kind -> text of the field; `macros.html` reads it, and `errors` by kind.
        was: kind -> text that the field began with.
        problems: what is wrong with the request as a whole.
    """

    def __init__(self, tenant: Tenant, user: User, posted: Mapping[str, Any] | None = None) -> None:
        self.tenant = tenant
        self.titles = TITLES
        now = {kind: amount_text(kind, amount) for kind, amount in tenant.quota.items()}
        given = posted or {}
        self.was = {kind: str(given.get(f"was-{kind}", text)) for kind, text in now.items()}
        self.values = {kind: str(given.get(kind, text)).strip() for kind, text in now.items()}
        self.errors: dict[str, list[str]] = {}
        self.problems: list[str] = []
        # No budget binds an admin, and a tenant without a team has none.
        bound = None if policy.may(user, "exceed_budget") else tenant.team
        self._budget = {line.kind: line for line in budget_lines(bound)} if bound else {}

    def read(self) -> dict[str, int] | None:
        """The amounts that were typed over, or None with the errors in the form.

        A field that was left alone is not sent back: somebody else may have changed it meanwhile.
        """
        typed = {kind: text for kind, text in self.values.items() if text != self.was[kind]}
        try:
            return QuotaSerializer(typed).read(prefix="") if typed else {}
        except Refused as refusal:
            self.take_errors(refusal)
            return None

    def take_errors(self, refusal: Refused) -> None:
        """Puts each error beside its field."""
        for error in refusal.errors:
            kind = error.field.removeprefix("quota.")
            if kind in COLUMNS:
                self.errors.setdefault(kind, []).append(error.text)
            else:
                self.problems.append(error.text)

    def hint(self, kind: str) -> str:
        """What is held now, and how much the team's budget leaves for this tenant."""
        words = [
            _("%(amount)s held now.")
            % {"amount": shown_amount(self.tenant.observed_used.get(kind, 0), kind)}
        ]
        most = self._most(self._budget.get(kind))
        if most is not None:
            shown = shown_amount(most, kind)
            words.append(_("At most %(most)s within the team's budget.") % {"most": shown})
        return " ".join(words)

    def _most(self, line: BudgetLine | None) -> int | None:
        if line is None or line.budget is None:
            return None
        return max(0, line.budget - (line.total - self.tenant.quota[line.kind]))
