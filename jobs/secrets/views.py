"""The pages of a person's secrets: names and what uses them, new values, deleting one."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe
from rest_framework import serializers

from jobs.models import UserSecret
from jobs.secrets import actions
from jobs.secrets.body import REGISTRY_KEYS, SecretBody
from portal.errors import FieldError, Refused
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, signed_in
from portal.web.rest import read
from tenants.models import Tenant

OTHERS_PER_PAGE = 50


class SecretForm(SpecForm):
    """One secret with rows of keys and values; those of a stored one begin without its values."""

    labels: Mapping[str, Any] = {
        "name": gettext_lazy("Name"),
        "kind": gettext_lazy("Kind"),
        "data": gettext_lazy("Values"),
    }

    def __init__(self, posted: QueryDict | None, secret: UserSecret | None, kind: str) -> None:
        """
        Args:
            secret: the one that is replaced; None: a new one.
        """
        self.kind = secret.kind if secret else kind
        keys = secret.keys if secret else list(REGISTRY_KEYS) if self.is_registry else [""]
        pairs = [(key, "") for key in keys]
        if posted is not None:
            pairs = list(zip(posted.getlist("key"), posted.getlist("value"), strict=False))
            pairs = [(key.strip(), value.replace("\r\n", "\n")) for key, value in pairs]
        self.rows = [pair for pair in pairs if posted is None or any(pair)] or [("", "")]
        rows = {f"key-{row}": key for row, (key, _value) in enumerate(self.rows)}
        labels = {**self.labels, **rows}
        fields = {name: serializers.CharField(label=label) for name, label in labels.items()}
        super().__init__(fields, posted, shown={"name": secret.name if secret else ""})

    @property
    def is_registry(self) -> bool:
        return self.kind == UserSecret.Kind.REGISTRY

    def body(self) -> dict[str, Any]:
        """Raises Refused: a key stands there twice."""
        keys = [key for key, _value in self.rows]
        if twice := {key for key in keys if keys.count(key) > 1}:
            text = _("%(key)s is given twice; keep one.") % {"key": min(twice)}
            raise Refused([FieldError(f"data.{min(twice)}", "duplicate_name", text)])
        return {"kind": self.kind, "data": dict(self.rows)}

    def place(self, error: FieldError) -> tuple[str, str]:
        key = error.field.removeprefix("data.")
        keys = [given[:80] for given, _value in self.rows]
        is_of_row = key != error.field and key in keys
        return f"key-{keys.index(key)}" if is_of_row else error.field, error.text


@require_safe
@signed_in
def secret_list(request: PageRequest) -> HttpResponseBase:
    tenant = Tenant.objects.current_tenant_of(request.user)
    used = actions.uses(tenant)
    context = {
        "secrets": [(secret, used.get(secret.name, ())) for secret in actions.own(tenant)],
        "others": Paginator(actions.of_others(request.user), OTHERS_PER_PAGE).get_page(
            request.GET.get("page")
        ),
        "tenant": tenant,
    }
    return render(request, "jobs/secrets.html", context)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def secret_form(request: PageRequest, name: str = "") -> HttpResponseBase:
    """A new secret, or new values of one; what was typed comes back in the answer that refuses it alone."""
    tenant = Tenant.objects.current_tenant_of(request.user)
    secret = get_object_or_404(actions.own(tenant), name=name) if name else None
    posted = request.POST if request.method == "POST" else None
    form = SecretForm(posted, secret, request.GET.get("kind", UserSecret.Kind.GENERIC))

    def put() -> UserSecret:
        own = Tenant.objects.own_of(request.user)
        wanted = name or form.values["name"]
        if not name and actions.own(own).filter(name=wanted).exists():
            # Whoever replaces values that nobody can read back should mean to.
            text = _(
                "You have a secret of this name already. Replace its values on the page Secrets."
            )
            raise Refused([FieldError("name", "name_taken", text)])
        return actions.put(
            by=request.user, tenant=own, name=wanted, **read(SecretBody(data=form.body()))
        )

    made = form.attempt(put) if posted is not None else None
    if made is not None:
        messages.success(request, _("The secret %(name)s is saved.") % {"name": made.name})
        return redirect("secrets")
    context = {"form": form, "secret": secret}
    return render(request, "jobs/secret_form.html", context, status=400 if form.is_wrong else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def secret_delete(request: PageRequest, name: str) -> HttpResponseBase:
    """Asks first, on a page of its own."""
    secret = get_object_or_404(
        actions.own(Tenant.objects.current_tenant_of(request.user)), name=name
    )
    found = actions.uses(secret.tenant).get(name)
    context = {"secret": secret, "in_use": actions.in_use_text(found) if found else ""}
    if request.method == "POST":
        try:
            actions.delete(by=request.user, secret=secret)
        except Refused as refusal:
            context["in_use"] = refusal.text
        else:
            messages.success(request, _("The secret %(name)s is deleted.") % {"name": name})
            return redirect("secrets")
    status = 409 if request.method == "POST" else 200
    return render(request, "jobs/secret_delete.html", context, status=status)
