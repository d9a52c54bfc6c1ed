"""Pages of signing in and out, and the one behind a join link, which sets a password."""

from django.conf import settings
from django.contrib import auth, messages
from django.db import transaction
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.web.request import PageRequest, next_page
from portal.web.rest import source_address
from tenants.audit.record import record
from tenants.people import passwords, sessions, sign_in_limit
from tenants.people.forms import NewPasswordForm, SignInForm


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: PageRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        return redirect(next_page(request))
    if request.method != "POST":
        return _sign_in_page(request, SignInForm(request))
    form = SignInForm(request, request.POST)
    try:
        tried = sign_in_limit.begin(
            name=request.POST.get("username", ""), address=source_address(request)
        )
    except Refused as refusal:
        form.add_error(None, refusal.text)
        answer = _sign_in_page(request, form, status=refusal.status)
        answer["Retry-After"] = str(refusal.retry_after_s)
        return answer
    if not form.is_valid():
        sign_in_limit.record_failure(tried)
        return _sign_in_page(request, form)
    sign_in_limit.take_back(tried)
    sessions.begin(request, form.get_user(), verb="sign-in", how="password")
    return redirect(next_page(request))


def _sign_in_page(request: PageRequest, form: SignInForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "next": next_page(request),
        "provider": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
    }
    return render(request, "people/sign_in.html", context, status=status)


@require_POST
def sign_out(request: PageRequest) -> HttpResponseBase:
    if request.user.is_authenticated:
        with transaction.atomic():
            record(by=request.user, verb="sign-out", target=request.user)
            auth.logout(request)
    messages.info(request, _("You are signed out."))
    return redirect("sign-in")


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
    sessions.begin(request, joined, verb="join", how="link")
    return redirect("home")
