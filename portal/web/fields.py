"""Bodies and fields for what people send: DRF's own are laxer, and have other codes."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, cast

from django.utils.translation import gettext_lazy as _
from drf_spectacular.drainage import set_override
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from portal import quantity
from portal.catalog import Catalog, Images, get_catalog

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
# registry/path:tag@digest; https://github.com/distribution/reference, kept to what pods accept.
IMAGE = re.compile(
    r"[a-z0-9]+(?:[._-][a-z0-9]+)*(?::\d{1,5})?(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


_AN_IMAGE = "tensorflow/tensorflow:2.21.0"
_MOST_IMAGES = 20  # that are named to who names none


class _Strict(serializers.Field[Any, Any, Any, Any]):
    """A null that is not allowed is a wrong value like others, and not the lack of one."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        is_wrong = data is None and not self.allow_null
        return (False, data) if is_wrong else super().validate_empty_values(data)


class Body(_Strict, serializers.Serializer[Any]):
    """An object of which every field is known: the others are told beside what else is wrong.

    Attributes:
        unknown_told: how many unknown fields are told of.
        hides_missing: beside these nothing is said of what is missing, which may be there under a
            wrong name.
    """

    unknown_told: ClassVar[int] = 5
    hides_missing: ClassVar[bool] = True
    default_error_messages = {
        "invalid": _("Send an object."),
        "unknown_field": _("There is no such field."),
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        given = data if isinstance(data, Mapping) else {}
        unknown = sorted(set(map(str, given)) - set(self.fields))[: self.unknown_told]
        text = str(self.error_messages["unknown_field"])
        wrong: dict[str, Any] = {
            name[:80]: serializers.ErrorDetail(text, "unknown_field") for name in unknown
        }
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            found = cast(dict[str, Any], error.detail)
            tells_all = not (unknown and self.hides_missing)
            wrong |= {name: said for name, said in found.items() if tells_all or name in given}
        if wrong:
            raise serializers.ValidationError(wrong)
        return values


class Quantity(_Strict):
    """A number, or text as Kubernetes writes it, from `least` to `most`; its value is whole."""

    default_error_messages = {
        "invalid_quantity": _("This must be a number or text such as 500m or 16Gi."),
        "out_of_range": _("This must be from {least} to {most}."),
    }
    parse: Callable[[str], int]
    show: Callable[[int], str]

    def __init__(self, *, most: int, least: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self._least, self._most = least, most

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, str | int | float):
            self.fail("invalid_quantity")
        try:
            amount = self.parse(str(data))
        except ValueError as error:
            raise serializers.ValidationError(str(error), "invalid_quantity") from error
        if not self._least <= amount <= self._most:
            self.fail("out_of_range", least=self.show(self._least), most=self.show(self._most))
        return amount

    def to_representation(self, value: int) -> str:
        return self.show(value)


class Cpu(Quantity):
    """Millicores: "500m" or 2."""

    parse = staticmethod(quantity.cpu_millicores)
    show = staticmethod(quantity.cpu_text)


class Memory(Quantity):
    """Bytes: "16Gi"."""

    parse = staticmethod(quantity.memory_bytes)
    show = staticmethod(quantity.memory_text)


class Whole(Quantity):
    """Pieces: 7 or "7"."""

    default_error_messages = {"invalid_quantity": _("This must be a whole number.")}
    parse = staticmethod(quantity.count)
    show = str


@extend_schema_field(str)
class TextLine(_Strict):
    """One line of text, or nothing. Strict: a number is no text."""

    default_error_messages = {
        "invalid": _("This must be one line of text."),
        "too_long": _("At most {most} characters."),
    }

    def __init__(self, *, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._most = most

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or not data.isprintable():
            self.fail("invalid")
        if len(data) > self._most:
            self.fail("too_long", most=self._most)
        return data.strip()


# --- what trainings, notebooks and TensorBoards are asked for with ---
class Omissible(serializers.Field[Any, Any, Any, Any]):
    """Null and empty text are as good as nothing sent."""

    default_error_messages = {"required": _("This is needed.")}

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        is_left_out = data is None or data == ""
        return super().validate_empty_values(empty if is_left_out else data)


class _Request(Omissible):
    default_error_messages = {
        "invalid_quantity": _("This must be a number or text such as 500m or 2Gi.")
    }


@extend_schema_field(str)
class CpuRequest(_Request, Cpu):
    """Millicores of one replica."""


@extend_schema_field(str)
class MemoryRequest(_Request, Memory):
    """Bytes of one replica."""


def as_whole(value: object) -> int | None:
    """An int of an int or of short decimal text; None for anything else (floats, booleans)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value.strip(), re.ASCII):
        return int(value)
    return None


@extend_schema_field(int)
class Integer(Omissible):
    """A whole number within bounds (inclusive); decimal text as well."""

    default_error_messages = {
        "out_of_range": _("This must be a whole number from {least} to {most}."),
        "only": _("This must be {least}."),
    }

    def __init__(self, *, least: int = 0, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._least, self._most = least, most

    def to_internal_value(self, data: Any) -> int:
        number = as_whole(data)
        if number is None or not self._least <= number <= self._most:
            text = self.error_messages["only" if self._least == self._most else "out_of_range"]
            said = text.format(least=self._bound(self._least), most=self._bound(self._most))
            raise serializers.ValidationError(said, "out_of_range")
        return number

    def to_representation(self, value: int) -> int:
        return value

    def _bound(self, number: int) -> str:
        return str(number)


class FixedInteger(Integer):
    """With bounds that are the same everywhere: the OpenAPI document has them."""

    def __init__(self, *, least: int = 0, most: int, **options: Any) -> None:
        super().__init__(least=least, most=most, **options)
        set_override(self, "field", {"type": "integer", "maximum": most, "minimum": least})


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class Duration(Integer):
    """Seconds: 28800, or text with units such as "8h"."""

    default_error_messages = {
        "out_of_range": _("This must be a time from {least} to {most}."),
        "no_duration": _(
            "Enter a time with its unit, for example 30min, 8h or 2d; {given} is not one."
        ),
    }

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and as_whole(data) is None:
            try:
                data = quantity.duration_s(data)
            except ValueError as error:
                text = self.error_messages["no_duration"].format(given=repr(data[:40]))
                raise serializers.ValidationError(text, "out_of_range") from error
        return super().to_internal_value(data)

    def _bound(self, number: int) -> str:
        return quantity.duration_text(number)


@extend_schema_field(bool)
class TrueOrFalse(Omissible):
    """true or false; their names as well, as forms send them."""

    default_error_messages = {"invalid": _("This must be true or false.")}

    def to_internal_value(self, data: Any) -> bool:
        found = {"true": True, "false": False}.get(str(data).lower())
        if found is None:
            self.fail("invalid")
        return found

    def to_representation(self, value: bool) -> bool:
        return value


@extend_schema_field(str)
class Text(Omissible):
    """Strict: a number is no text. Its ends are not trimmed."""

    default_error_messages = {"invalid": _("This must be text.")}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data

    def to_representation(self, value: str) -> str:
        return value


class Choice(Text):
    """One of some words."""

    default_error_messages = {"invalid_choice": _("{given} is none of {words}.")}

    def __init__(self, words: Iterable[str], **options: Any) -> None:
        super().__init__(**options)
        self._words = tuple(words)

    def to_internal_value(self, data: Any) -> str:
        given = super().to_internal_value(data)
        if given not in self._words:
            self.fail("invalid_choice", given=repr(given[:40]), words=", ".join(self._words))
        return given


class FixedChoice(Choice):
    """One of words that are the same everywhere: the OpenAPI document has them."""

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        super().__init__(words, **options)
        set_override(self, "field", serializers.ChoiceField(list(words)))


@extend_schema_field({"type": "string", "pattern": NAME.pattern})
class Name(Text):
    """The name of a training, notebook or TensorBoard: shown as typed, not unique."""

    default_error_messages = {
        "invalid_name": _(
            "Use 1 to 80 letters from a to z or A to Z, digits, spaces, dots, dashes or underscores, "
            "beginning with a letter or a digit."
        )
    }

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if not NAME.fullmatch(name):
            self.fail("invalid_name")
        return name


@extend_schema_field({"type": "string", "maxLength": 255})
class ImageReference(Text):
    """An image that may be asked for."""

    default_error_messages = {
        "invalid_image": _(
            "This is not an image reference; write for example tensorflow/tensorflow:2.21.0."
        ),
        "required": _("Name an image: {names}."),
        "image_not_offered": _("Your admin does not offer this image."),
        "address": _(
            "{host} is an address inside the cluster or of a node. Name the registry by its host "
            "name, or ask your admin to list the image."
        ),
    }

    def __init__(
        self, of: Callable[[Catalog], Images] = attrgetter("images"), **options: Any
    ) -> None:
        """
        Args:
            of: the part of the catalog that says which images there are; the admin vouches for the
                registries of those that it lists.
        """
        super().__init__(**options)
        self._of = of

    @property
    def offered(self) -> Images:
        """Those of the catalog."""
        return self._of(self.context.get("catalog") or get_catalog())

    def names(self) -> Iterable[str]:
        """What one that is missing may be."""
        return [image.reference for image in self.offered.offered]

    def fail(self, key: str, **words: Any) -> NoReturn:
        if key == "required":
            names = list(islice(self.names(), _MOST_IMAGES + 1))
            shown = [*names[:_MOST_IMAGES], *["…"][: len(names) - _MOST_IMAGES]]
            words["names"] = ", ".join(shown or [_AN_IMAGE])
        super().fail(key, **words)

    def to_internal_value(self, data: Any) -> str:
        image = super().to_internal_value(data)
        if len(image) > 255 or not IMAGE.fullmatch(image):
            self.fail("invalid_image")
        offered = self.offered
        if not offered.allows(image):
            self.fail("image_not_offered")
        host = registry_host(image)
        if is_address(host) and host not in {
            registry_host(row.reference) for row in offered.offered
        }:
            # The node fetches it, from a place that pods themselves may not reach.
            text = self.error_messages["address"].format(host=host)
            raise serializers.ValidationError(text, "image_not_offered")
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
