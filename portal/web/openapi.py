"""The OpenAPI document: for people with an account, and made once in the life of a process.

It is made from the code alone, and says the same to everybody.
"""

import functools
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request


class OpenApiView(SpectacularAPIView):
    """YAML or JSON, as the caller asks for it."""

    permission_classes = [IsAuthenticated]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer: Any = request.accepted_renderer
        answer = HttpResponse(_rendered(renderer.media_type), content_type=renderer.media_type)
        answer["Content-Disposition"] = f'inline; filename="homeport.{renderer.format}"'
        return answer


def without_labels(result: dict[str, Any], **_options: Any) -> dict[str, Any]:
    """The document without the labels that fields of a training have in its form; they may change."""
    for part in result["components"]["schemas"]["Submit"]["properties"].values():
        part.pop("title", None)
    return result


@functools.cache
def _rendered(media_type: str) -> bytes:
    kinds = {kind.media_type: kind for kind in OpenApiView.renderer_classes}
    text = kinds[media_type]().render(_document(), media_type, {})
    return text if isinstance(text, bytes) else text.encode()


@functools.cache
def _document() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return made
