"""What is said when something is wrong: one page for all refusals, JSON in REST and for pods."""

import sys

from django.db import close_old_connections, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt

from portal.errors import Refused
from portal.web import refusals
from portal.web.streaming import AbsentError


def _error(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    # Django makes these pages outside of the request's own thread, in one that nobody looks after.
    if not connection.in_atomic_block:
        close_old_connections()
    return _answer(request, refusals.Refusal(status, _CODES[status], title, text))


def _answer(request: HttpRequest, refusal: refusals.Refusal) -> HttpResponse:
    """One page for all refusals; REST and the pods' door answer JSON as always."""
    is_part = request.headers.get("HX-Request") == "true"
    if is_part or request.path.startswith(("/api/", "/internal/")):
        content_type, body = refusals.body_of(refusal, request.path, is_part=is_part)
        answer = HttpResponse(body, content_type=content_type, status=refusal.status)
    else:
        context = {"status": refusal.status, "title": refusal.title, "text": refusal.text}
        answer = render(request, "error.html", context, status=refusal.status)
    return _with_retry(answer, refusal)


def _with_retry(answer: HttpResponse, refusal: refusals.Refusal) -> HttpResponse:
    if refusal.retry_s:
        answer.headers["Retry-After"] = str(refusal.retry_s)
    return answer


_CODES = {
    400: "bad_request",
    403: "permission_denied",
    404: "not_found",
    413: "too_large",
}
_OUR_MISTAKE = refusals.Refusal(
    500,
    "server_error",
    gettext_lazy("Something went wrong"),
    gettext_lazy("Something went wrong in Homeport. Your trainings are not affected. Try again."),
)


def refused(request: HttpRequest, error: Refused) -> HttpResponse:
    """For every page that does not show the errors in a form of its own."""
    title = _("Not done")
    code, retry_s = error.errors[0].code, error.retry_after_s or 0
    return _answer(request, refusals.Refusal(error.status, code, title, error.text, retry_s))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    limit = refusals.form_limit(exception)
    if limit is not None:
        return _error(request, 413, _("Too large"), str(limit))
    text = _("The browser sent something that Homeport cannot read. Go back and try again.")
    return _error(request, 400, _("Not readable"), text)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error(
        request, 403, _("You may not do this"), str(exception) or _("Your role does not allow it.")
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, AbsentError):
        return _error(request, 404, exception.title, str(exception))
    text = _("There is nothing at this address, or you may not see it.")
    return _error(request, 404, _("Not found"), text)


def server_error(request: HttpRequest) -> HttpResponse:
    """Needs neither database nor session, for those may be what is broken."""
    # Django calls this while it handles the error.
    refusal = refusals.find(sys.exc_info()[1]) or _OUR_MISTAKE
    is_part = request.headers.get("HX-Request") == "true"
    content_type, body = refusals.body_of(refusal, request.path, is_part=is_part)
    answer = HttpResponse(body, content_type=content_type, status=refusal.status)
    return _with_retry(answer, refusal)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = _(
        "This page was open too long, or was opened before you signed in. Go back, reload it and "
        "send it again; what you typed in the form of a new training is kept."
    )
    return _error(request, 403, _("Send it again"), text)


@csrf_exempt  # it does nothing, and REST has to say so in its own words
def api_not_found(request: HttpRequest) -> HttpResponse:
    return _error(request, 404, "", "There is no such address in the REST API.")
