"""How many API tokens one person may have."""

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.errors import Refused
from tenants.models import ApiToken, User

MAX_TOKENS = 100  # those that have ended are not counted


def check_tokens(user: User) -> None:
    """
    Raises:
        Refused: 409, there is no room for one more.
    """
    if ApiToken.objects.filter(user=user, expires_at__gt=timezone.now()).count() >= MAX_TOKENS:
        text = _("You have %(most)s API tokens. Revoke those that you no longer use.")
        raise Refused(text % {"most": MAX_TOKENS}, "too_many_tokens", 409)
