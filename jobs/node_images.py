"""Which images no node can start, by the rows of nodes."""

from collections.abc import Collection

from jobs.models import Node
from jobs.rules.images import lack_of


def read_lacks(images: Collection[str]) -> dict[str, str]:
    """Why, as a sentence, for those of these images that no node can start; others are left out. One query."""
    nodes = list(Node.objects.values_list("images", flat=True))
    found = {image: lack_of(image, nodes) for image in images}
    return {image: lack for image, lack in found.items() if lack}
