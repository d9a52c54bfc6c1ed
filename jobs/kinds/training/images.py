"""Images that a training may name: those offered by the admin, and those that ran in the namespace."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max

from jobs.kinds.training.spec import KEY
from jobs.models import Workload
from jobs.node_images import read_lacks
from portal.catalog import Images
from portal.web.fields import ImageReference
from tenants.models import Tenant

MOST_USED = 20  # of a namespace, the latest


@dataclass(frozen=True)
class KnownImage:
    """
    Attributes:
        title: what the admin calls it; "": it is not offered.
        ran_at: when a training of the namespace last began with it, so that it could be pulled; None: none did.
        problem: why it cannot start here, or that it could not be pulled of late; "": nothing is known.
    """

    image: str
    title: str
    summary: str
    ran_at: datetime | None
    problem: str = ""

    @property
    def is_offered(self) -> bool:
        return bool(self.title)


def known_images(offered: Images, tenant: Tenant | None) -> list[KnownImage]:
    """Those that are offered, in the order of the catalog, then others that ran, the latest first."""
    rows = Workload.objects.filter(tenant=tenant, kind=KEY, started_at__isnull=False)
    by_time = rows.values_list("image").annotate(last=Max("started_at")).order_by("-last")
    ran: dict[str, datetime] = dict(by_time[:MOST_USED]) if tenant else {}
    found = [
        KnownImage(row.reference, str(row.title), str(row.summary), ran.pop(row.reference, None))
        for row in offered.offered
    ]
    allowed = ((name, at) for name, at in ran.items() if offered.allows(name))
    return found + [KnownImage(name, "", "", at) for name, at in allowed]


class TrainingImage(ImageReference):
    """The image of a training; the error of a missing one lists the images there are."""

    def names(self) -> Iterable[str]:
        tenant: Any = self.context.get("tenant")
        images = [one.image for one in known_images(self.offered, tenant)]
        lacks = read_lacks(images)
        return [image for image in images if image not in lacks]
