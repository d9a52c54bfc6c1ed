"""The page behind a join link: somebody sets their password and is in."""

from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.web.request import PageRequest
from tenants.people import passwords, sessions
from tenants.people.forms import NewPasswordForm

_BACKEND = "django.contrib.auth.backends.ModelBackend"


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: PageRequest, key: str) -> HttpResponseBase:
    person = passwords.find_person(key)
    if person is None:
        return render(request, "people/join_over.html", status=410)
    form = NewPasswordForm(person, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"form": form, "person": person, "is_new": person.last_login is None}
        return render(request, "people/join.html", context, status=400 if form.errors else 200)
    joined = passwords.set_by_link(key=key, password=form.cleaned_data["new_password1"])
    if joined is None:
        return render(request, "people/join_over.html", status=410)
    # Whoever was signed in here is not any more.
    sessions.begin(request, joined, verb="join", how="link", backend=_BACKEND)
    return redirect("home")
