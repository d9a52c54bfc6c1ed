"""The form of a new workload: what was typed, the body that it means, and errors at its fields.

The rules themselves are those of REST (the serializers beside their kinds).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from uuid import UUID

from django.http import QueryDict
from rest_framework import serializers

from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.spec import WorkloadSpec
from jobs.models import Bundle, Template, UserSecret, Workload
from portal.errors import FieldError
from portal.web.forms import AnyField, SpecForm
from tenants.models import Tenant, User

_MOST_IDS = 50


class BodyReader(Protocol):
    """Reads a body, of which `written` says how a document has values that are no text; raises Refused."""

    def __call__(
        self, body: Mapping[str, Any], written: Mapping[str, str] = ..., /
    ) -> WorkloadSpec: ...


Check = BodyReader


@dataclass(frozen=True)
class FieldChange:
    """A field that differs from another workload's, as a page shows it; "" where nothing is asked for."""

    label: str
    before: str
    after: str


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
        view: which of its tabs this is.
        has_templates: whether it can be saved as a template, and begin with one.
    """

    serializer: ClassVar[type[SpecSerializer]]
    labels: ClassVar[Mapping[str, Any]] = {}
    template: ClassVar[str]
    panel: ClassVar[str] = "_fit.html"
    form_id: ClassVar[str] = "service-form"
    stand_in: ClassVar[str]
    takes_like: ClassVar[bool] = True
    wants_file = False
    view: ClassVar[str] = "form"
    has_templates: ClassVar[bool] = False

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

    @classmethod
    def of_template(cls, _template: Template, _check: Check) -> "WorkloadForm":
        """Filled in as a template says, with what is not offered any more told at its field."""
        return cls()

    @classmethod
    def of_post(cls, posted: QueryDict) -> "WorkloadForm":
        """The one of its tabs that was sent."""
        return cls(posted)

    def read(self, check: Check) -> WorkloadSpec | None:
        """The checked request, or None with the errors in the form.

        Args:
            check: reads a body. Raises Refused.
        """
        for name, text in self.unreadable().items():
            self.errors.setdefault(name, [text])  # why an upload was refused says more
        spec = self.attempt(lambda: check(self.body()))
        return None if self.is_wrong else spec

    def read_early(self, check: Check) -> WorkloadSpec | None:
        """As `read`, with something harmless where nothing is typed yet; what is typed stays."""
        typed = dict(self.values)
        self.fill_blanks()
        spec = self.read(check)
        self.values = typed
        return spec

    def typed_body(self, _spec: Any) -> dict[str, Any]:
        """The whole body of what was read early, without what only stood in there."""
        return self.body()

    def turned(self, _spec: Any, _check: Check) -> "WorkloadForm":
        """Its other tab, with what was read early; itself where there is none, or it has no place for all."""
        return self

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

    def panel_context(self, _spec: Any, _tenant: Tenant) -> dict[str, Any]:
        """What its panel shows besides.

        Args:
            _spec: the request; None: it cannot be read.
        """
        return {}

    def changes(self, _spec: Any, _original: Workload, _user: User) -> list[FieldChange]:
        """What differs from the workload that it began with, as far as the user may read that."""
        return []


class SecretsForm(WorkloadForm):
    """One that asks how each secret of the person is used, by `training/_secrets.html`.

    Attributes:
        secrets: name -> how it is used; "": not.
    """

    def __init__(
        self,
        posted: QueryDict | None = None,
        *,
        shown: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            secrets: those that are used, where nothing was posted.
        """
        super().__init__(posted, shown=shown)
        self.secrets = dict(secrets or {}) if posted is None else _posted_secrets(posted)

    def place(self, error: FieldError) -> tuple[str, str]:
        if error.field.startswith("secrets."):
            return "secrets", f"{error.field.removeprefix('secrets.')}: {error.text}"
        return super().place(error)

    def page_context(self, tenant: Tenant) -> dict[str, Any]:
        own = UserSecret.objects.filter(tenant=tenant, is_deleted=False)
        return {"own_secrets": own.filter(kind=UserSecret.Kind.GENERIC)}


def _posted_secrets(posted: QueryDict) -> dict[str, str]:
    """Name -> how it is used, of those that are."""
    start = "secrets."
    return {
        name.removeprefix(start): str(use)
        for name, use in posted.items()
        if name.startswith(start) and use
    }


def ids_of(texts: Iterable[str]) -> list[UUID]:
    """Those that are ids; the others are told by the rules of REST."""
    found = []
    for text in list(texts)[:_MOST_IDS]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
