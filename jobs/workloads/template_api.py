"""REST of templates."""

from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.kinds.training.commands import body_hints
from jobs.models import Template
from jobs.workloads import templates
from jobs.workloads.rest import RowsViewSet
from jobs.workloads.serializers import HINTS
from portal.errors import FieldError, Refused
from portal.web.fields import Body, Name, Text
from portal.web.rest import read, text_asked
from tenants.models import Team

_DESCRIPTION = "One's own templates and those of one's teams; a lead publishes to the team."


class TemplateSerializer(serializers.ModelSerializer[Template]):
    owner = serializers.CharField(source="owner.username")
    team = serializers.CharField(source="team.name", allow_null=True, default=None)

    hints = serializers.SerializerMethodField(help_text=HINTS)

    class Meta:
        model = Template
        fields = ("id", "name", "owner", "team", "spec", "updated_at", "hints")

    def get_hints(self, template: Template) -> list[str]:
        return body_hints(template.spec)


class TemplateBody(Body):
    name = Name()
    team = Text(required=False, allow_null=True, help_text="its name; null: one's own")
    spec = serializers.DictField(
        error_messages={"not_a_dict": gettext_lazy("This must be an object.")},
        help_text="a body of `jobs/`; name and command may be missing, an upload is left out",
    )


@extend_schema_view(
    list=extend_schema(
        description=_DESCRIPTION, parameters=[OpenApiParameter("name", description="exactly")]
    )
)
class TemplateViewSet(mixins.ListModelMixin, RowsViewSet):
    serializer_class = TemplateSerializer
    queryset = Template.objects.none()

    def get_queryset(self) -> QuerySet[Template]:
        found = templates.visible_to(self.user)
        name = text_asked(self.request.query_params, "name")
        return found.filter(name=name) if name else found

    def _find(self, pk: UUID) -> Template:
        return get_object_or_404(templates.visible_to(self.user), pk=pk)

    def _save(self, request: Request, replaced: Template | None, code: int) -> Response:
        asked = read(TemplateBody(data=request.data))
        team, name = None, asked.get("team")
        if name is not None:
            team = Team.objects.visible_to(self.user).filter(name=name).first()
            if team is None:
                raise Refused([FieldError("team", "not_found", "You have no such team.")])
        saved = templates.save(
            by=self.user, replaced=replaced, name=asked["name"], team=team, body=asked["spec"]
        )
        return Response(TemplateSerializer(saved).data, status=code)

    @extend_schema(
        description=_DESCRIPTION, request=TemplateBody, responses={201: TemplateSerializer}
    )
    def create(self, request: Request) -> Response:
        return self._save(request, None, status.HTTP_201_CREATED)

    @extend_schema(description="One template.")
    def retrieve(self, request: Request, pk: UUID) -> Response:
        return Response(TemplateSerializer(self._find(pk)).data)

    @extend_schema(description="Replaces a template.", request=TemplateBody)
    def update(self, request: Request, pk: UUID) -> Response:
        return self._save(request, self._find(pk), status.HTTP_200_OK)

    @extend_schema(description="Deletes a template.", responses={204: None})
    def destroy(self, request: Request, pk: UUID) -> Response:
        templates.delete(by=self.user, template=self._find(pk))
        return Response(status=status.HTTP_204_NO_CONTENT)
