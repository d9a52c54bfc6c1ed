"""Requests that are bound to what somebody has seen: `ETag`, `If-None-Match` and `If-Match` of one workload.

https://www.rfc-editor.org/rfc/rfc9110#section-13
"""

from dataclasses import astuple

from django.utils.http import parse_etags
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from jobs.models import Workload
from jobs.workloads.queue_place import ShownPlace
from portal.errors import FieldError, Refused
from portal.web.fields import as_whole
from portal.web.lists import revision_of

# Part of the ETag of one training, notebook or TensorBoard: to be raised with each change of the fields
# that `RestResource.answer` shows, or clients go on with the old ones while the row does not change.
ANSWER_VERSION = 2
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    location=OpenApiParameter.HEADER,
    description="the ETag of an answer: 304 without a body while it is still the same",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    location=OpenApiParameter.HEADER,
    description="the ETag of an answer: 412 if it has changed since",
)


def _tag(workload: Workload, place: ShownPlace | None) -> str:
    # A place moves while the row stays as it is.
    moved = f"-{revision_of(astuple(place))}" if place else ""
    return f'"{workload.revision}-{ANSWER_VERSION}{moved}"'


def is_known(request: Request, workload: Workload, place: ShownPlace | None) -> bool:
    """Whether the caller has the answer about this revision at this place already."""
    tag, asked = _tag(workload, place), request.headers.get("If-None-Match", "")
    return not {tag, f"W/{tag}", "*"}.isdisjoint(parse_etags(asked))


def headers_of(workload: Workload, place: ShownPlace | None) -> dict[str, str]:
    """Of which revision an answer is; people see different things of the same one."""
    return {"ETag": _tag(workload, place), "Vary": "Accept, Authorization, Cookie"}


def revision_asked(request: Request) -> int | None:
    """The revision to which a change is bound by `If-Match`; None: to none.

    Raises:
        Refused: 412, no revision is like this.
    """
    tags = parse_etags(request.headers.get("If-Match", "*"))
    if tags == ["*"]:
        return None
    revision = as_whole(tags[0].strip('"').partition("-")[0]) if len(tags) == 1 else None
    if revision is None:
        text = "If-Match takes one ETag, as the answer to GET has it."
        raise Refused([FieldError("If-Match", "invalid", text)], status=412)
    return revision
