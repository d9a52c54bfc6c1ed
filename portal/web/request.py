"""What a page's view is given: the request with its person and htmx details, signed in."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from portal.errors import Refused
from portal.web import errors

P = ParamSpec("P")


class PageRequest(HttpRequest):
    """A request behind `HtmxMiddleware` and `signed_in`."""

    htmx: HtmxDetails
    user: Any  # tenants.models.User; this room lies below that one


View = Callable[Concatenate[PageRequest, P], HttpResponseBase]


def _to_sign_in(request: PageRequest) -> HttpResponseBase:
    """To the sign-in page and back again; a fragment's request takes the whole page along.

    A fragment must not be answered by a redirect: the browser would follow it silently and put the
    sign-in page where a table was.
    """
    if not request.htmx:
        back = request.get_full_path() if request.method in {"GET", "HEAD"} else request.path
        return redirect_to_login(back)
    try:
        parts = urlsplit(request.htmx.current_url or "/")
    except ValueError:  # `http://[::1`, which no browser sends
        parts = urlsplit("/")
    back = f"{parts.path}?{parts.query}" if parts.query else parts.path
    answer: HttpResponseBase = HttpResponseClientRedirect(
        f"{reverse('sign-in')}?{urlencode({'next': back})}"
    )
    return answer


def signed_in(view: View[P]) -> View[P]:
    """For people with an account only; others are asked to sign in and then brought back.

    What is `Refused` is answered by its page, unless the view shows it in its own form.
    """

    @wraps(view)
    def guarded(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _to_sign_in(request)
        try:
            answer = view(request, *args, **kwargs)
        except Refused as error:
            answer = errors.refused(request, error)
        # After signing out, the back button must ask again instead of showing an old page.
        patch_cache_control(answer, private=True, no_cache=True)
        # One address may answer a page or a part of it.
        patch_vary_headers(answer, ["HX-Request"])
        return answer

    return guarded


def admins_only(view: View[P]) -> View[P]:
    """For admins only; others who have signed in are told so (403)."""

    @wraps(view)
    def guarded(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.may("administer"):
            raise PermissionDenied(_("Only admins see this page."))
        return view(request, *args, **kwargs)

    return signed_in(guarded)


def done_or_told(
    request: PageRequest, act: Callable[[], str], to: str, **where: Any
) -> HttpResponseBase:
    """Goes to a page, which tells what `act` says of what it has done, or why that was refused."""
    try:
        messages.success(request, act())
    except Refused as refusal:
        messages.error(request, refusal.text)
    answer: HttpResponseBase = redirect(to, **where)
    return answer


def next_page(request: PageRequest) -> str:
    """Where to go afterwards: the page of this portal that `next` names by its path, or home."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    # Without its slash it would be the name of a view, or lie below the page that it is asked of.
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)


def is_unchanged(request: PageRequest, revision: str) -> bool:
    """Whether the browser asks for a fragment of which it shows this revision (`live.js`)."""
    return bool(request.htmx) and request.headers.get("Homeport-Have") == revision


def wants_fragment(request: PageRequest) -> bool:
    """Whether htmx asks for a part of the page; going back in its history asks for all of it."""
    return bool(request.htmx) and not request.htmx.history_restore_request


def page_or_fragment(
    request: PageRequest, page: str, fragment: str, context: dict[str, Any], *, revision: str = ""
) -> HttpResponse:
    """A template, or the one of its part that htmx asks for.

    Args:
        revision: of what is shown: a browser that shows it already is told so (204).
    """
    if revision and is_unchanged(request, revision):
        return HttpResponse(status=204)
    return render(request, fragment if wants_fragment(request) else page, context)


def search_words(query: QueryDict) -> str:
    """What a list is searched for. PostgreSQL takes a NUL for an error, which nobody's name has."""
    return query.get("q", "").replace("\0", "").strip()[:80]
