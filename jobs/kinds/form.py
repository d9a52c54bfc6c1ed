"""The form of a new workload: what was typed, the body that it means, and errors at its fields.

The rules themselves are those of REST (the serializers beside their kinds).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import QueryDict
from rest_framework import serializers

from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import WorkloadSpec
from jobs.models import Bundle, Workload
from portal.errors import FieldError
from portal.web.forms import AnyField, SpecForm
from tenants.models import Tenant, User

_MOST_IDS = 50


class WorkloadForm(SpecForm, ABC):
    """One filled-in form.

    Attributes:
        serializer: whose fields it has.
        labels: of the fields that a body has not, or not under this label.
        template: its page.
        panel: the template of what the page says beside it at once.
        form_id: the id of its element.
        stand_in: its name while none is typed.
        takes_like: whether its address may name a workload, `?like=`, that the form begins with.
        wants_file: whether it may bring an upload with it.
    """

    serializer: ClassVar[type[SpecSerializer]]
    labels: ClassVar[Mapping[str, Any]] = {}
    template: ClassVar[str]
    panel: ClassVar[str] = "_fit.html"
    form_id: ClassVar[str] = "service-form"
    stand_in: ClassVar[str]
    takes_like: ClassVar[bool] = True
    wants_file = False

    def __init__(
        self, posted: QueryDict | None = None, *, shown: Mapping[str, str] | None = None
    ) -> None:
        """
        Args:
            posted: None: nobody has typed yet.
            shown: name -> text where it is not that of a blank form.
        """
        super().__init__(self.fields_of(posted), posted, shown={**self.blank(), **(shown or {})})

    @classmethod
    def fields_of(cls, _posted: QueryDict | None) -> dict[str, AnyField]:
        """Its fields by the names of their inputs."""
        own = {name: serializers.CharField(label=label) for name, label in cls.labels.items()}
        return {**cls.serializer().fields, **own}

    @classmethod
    def blank(cls) -> dict[str, str]:
        """The texts of a blank form."""
        return {}

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The REST body, without what cannot be read."""

    def unreadable(self) -> dict[str, str]:
        """Field -> words: what the rules of REST never see, or fill in though somebody chose to type it."""
        return {}

    @classmethod
    @abstractmethod
    def like(cls, workload: Workload, user: User) -> "WorkloadForm":
        """The form that would ask for one like it, without what the user may not read."""

    @classmethod
    def of_query(cls, _query: QueryDict) -> "WorkloadForm":
        """The form that an address names, for example with trainings ticked."""
        return cls()

    def read(self, check: Callable[[Mapping[str, Any]], WorkloadSpec]) -> WorkloadSpec | None:
        """The checked request, or None with the errors in the form.

        Args:
            check: reads a body. Raises Refused.
        """
        for name, text in self.unreadable().items():
            self.errors.setdefault(name, [text])  # why an upload was refused says more
        spec = self.attempt(lambda: check(self.body()))
        return None if self.is_wrong else spec

    def take(self, errors: Iterable[FieldError]) -> None:
        """Puts errors of a body at the fields of this form."""
        # One is enough for a field, and the form itself says better what it could not read.
        super().take(error for error in errors if self.place(error)[0] not in self.errors)

    def fill_blanks(self) -> None:
        """Something harmless where nothing is typed yet, to tell early what fits."""
        self.values["name"] = self.values["name"] or self.stand_in

    def attach(self, add: Callable[[], Bundle]) -> None:
        """Takes the upload that came with the form; what is wrong with it is told there."""

    def page_context(self, tenant: Tenant) -> dict[str, Any]:
        """What its page shows besides."""
        return {}

    def panel_context(self, spec: Any) -> dict[str, Any]:
        """What its panel shows besides.

        Args:
            spec: the request; None: it cannot be read.
        """
        return {}


def ids_of(texts: Iterable[str]) -> list[UUID]:
    """Those that are ids; the others are told by the rules of REST."""
    found = []
    for text in list(texts)[:_MOST_IDS]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
