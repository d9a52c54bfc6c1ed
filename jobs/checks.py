"""Reads the parts that the bodies of submits share (names, images, amounts) and collects what is
wrong with them, field by field.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal import quantity
from portal.catalog import Catalog, Image
from portal.errors import FieldError
from tenants.models import Tenant

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
# registry/path:tag@digest; https://github.com/distribution/reference, kept to what pods accept.
IMAGE = re.compile(
    r"[a-z0-9]+(?:[._-][a-z0-9]+)*(?::\d{1,5})?(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


@dataclass
class Checker:
    """Collects errors while the parts of a body are read."""

    body: Mapping[str, Any]
    tenant: Tenant
    catalog: Catalog
    errors: list[FieldError] = field(default_factory=list)

    def refuse(self, name: str, code: str, text: str) -> None:
        self.errors.append(FieldError(name, code, text))

    def text(self, name: str, *, required: bool = False, default: str = "") -> str:
        value = self.body.get(name)
        if value is None or value == "":
            if required:
                self.refuse(name, "required", "This is needed.")
            return default
        if not isinstance(value, str):
            self.refuse(name, "invalid", "This must be text.")
            return default
        return value

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default=default)
        if value not in allowed:
            self.refuse(name, "invalid_choice", f"{value[:40]!r} is none of {', '.join(allowed)}.")
            return default
        return value

    def whole(self, name: str, bounds: tuple[int, int], default: int | None) -> int | None:
        """A whole number within bounds (inclusive), or the default when it is absent."""
        value = self.body.get(name)
        if value is None or value == "":
            return default
        number = as_whole(value)
        if number is None or not bounds[0] <= number <= bounds[1]:
            self.refuse(
                name,
                "out_of_range",
                f"This must be a whole number from {bounds[0]} to {bounds[1]}.",
            )
            return default
        return number


def as_whole(value: object) -> int | None:
    """An int of an int or of short decimal text; None for anything else (floats, booleans)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value.strip(), re.ASCII):
        return int(value)
    return None


def read_name(check: Checker) -> str:
    """The name of a job, notebook or TensorBoard: shown as typed, not unique."""
    name = check.text("name", required=True)
    if name and not NAME.fullmatch(name):
        check.refuse(
            "name",
            "invalid_name",
            "Use 1 to 80 letters, digits, blanks, dots, dashes or underscores, beginning with a "
            "letter or a digit.",
        )
    return name


def read_image(
    check: Checker, *, offers: Callable[[str], bool], listed: Iterable[Image], default: str = ""
) -> str:
    """An image reference that may be asked for; required where there is no default.

    Args:
        offers: whether people may ask for a reference.
        listed: the images of the catalog, whose registries the admin vouches for.
    """
    image = check.text("image", required=not default, default=default)
    if not image:
        return image
    if len(image) > 255 or not IMAGE.fullmatch(image):
        check.refuse(
            "image",
            "invalid_image",
            "This is not an image reference; write for example tensorflow/tensorflow:2.21.0.",
        )
    elif not offers(image):
        check.refuse("image", "image_not_offered", "Your admin does not offer this image.")
    elif is_address(host := registry_host(image)) and host not in {
        registry_host(row.reference) for row in listed
    }:
        # The node fetches it, from a place that pods themselves may not reach.
        check.refuse(
            "image",
            "image_not_offered",
            f"{host} is an address inside the cluster or of a node. Name the registry by its host "
            "name, or ask your admin to list the image.",
        )
    return image


def registry_host(image: str) -> str:
    """Host of the registry without its port; "" for the one that the node pulls from by default.

    https://github.com/distribution/reference: the first part is a host when it has a dot or a port,
    or is `localhost`.
    """
    first, slash, _rest = image.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return ""
    return first.partition(":")[0]


def is_address(host: str) -> bool:
    """Whether a host is no name: an IPv4 address in any notation of inet_aton(3), or this machine."""
    last = host.rpartition(".")[2]
    return last == "localhost" or re.fullmatch(r"\d+|0x[0-9a-f]*", last) is not None


def has_controls(text: str) -> bool:
    """NUL and half surrogates cannot be passed to a program; other controls are the user's own."""
    return "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


def read_bounded(check: Checker, path: str, value: Any, bounds: tuple[int, int]) -> int:
    """A whole number within bounds (inclusive)."""
    number = as_whole(value)
    if number is None or not bounds[0] <= number <= bounds[1]:
        text = (
            f"This must be {bounds[0]}."
            if bounds[0] == bounds[1]
            else f"This must be a whole number from {bounds[0]} to {bounds[1]}."
        )
        check.refuse(path, "out_of_range", text)
        return bounds[0]
    return number


def read_amount(check: Checker, path: str, value: Any, kind: str, bounds: tuple[int, int]) -> int:
    """CPU in millicores or memory in bytes, within bounds."""
    read = quantity.cpu_millicores if kind == "cpu" else quantity.memory_bytes
    show = quantity.cpu_text if kind == "cpu" else quantity.memory_text
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise quantity.QuantityError("This must be a number or text such as 500m or 2Gi.")
        amount = read(str(value))
    except quantity.QuantityError as error:
        check.refuse(path, "invalid_quantity", str(error))
        return bounds[0]
    if not bounds[0] <= amount <= bounds[1]:
        check.refuse(
            path, "out_of_range", f"This must be from {show(bounds[0])} to {show(bounds[1])}."
        )
        return bounds[0]
    return amount
