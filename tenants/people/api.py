"""REST of people and teams, for admins; people see their own teams."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from portal.web.permissions import AdminsOnly
from portal.web.rest import read
from tenants.authentication import caller
from tenants.models import Team, User
from tenants.people import actions, passwords, teams
from tenants.people.listing import visible_people
from tenants.people.serializers import (
    InvitationBody,
    PersonBody,
    ResetBody,
    TeamBody,
    TeamChangeBody,
)
from tenants.quota.rules import lines_of_teams
from tenants.quota.serializers import amount_json


class PersonSerializer(serializers.ModelSerializer[User]):
    team = serializers.CharField(source="team.name", allow_null=True, default=None)
    leads = serializers.ListField(child=serializers.CharField(), source="teams_led", read_only=True)
    state = serializers.CharField(read_only=True)
    created_at = serializers.DateTimeField(source="date_joined")

    class Meta:
        model = User
        fields: tuple[str, ...] = (
            "id",
            "username",
            "first_name",
            "last_name",
            "email",
            "role",
            "team",
            "leads",
            "is_active",
            "state",
            "last_seen_at",
            "created_at",
        )


class JoinLinkSerializer(serializers.Serializer[Any]):
    """The link is shown in this one answer only."""

    join_url = serializers.URLField()
    join_expires_at = serializers.DateTimeField()


class InvitedSerializer(PersonSerializer):
    join_url = serializers.URLField()
    join_expires_at = serializers.DateTimeField()

    class Meta(PersonSerializer.Meta):
        fields = (*PersonSerializer.Meta.fields, "join_url", "join_expires_at")


def join_url(request: Any, link: passwords.JoinLink) -> str:
    """The address that the person opens."""
    url: str = request.build_absolute_uri(reverse("join", args=[link.key]))
    return url


def _link_json(request: Request, link: passwords.JoinLink) -> dict[str, Any]:
    return {"join_url": join_url(request, link), "join_expires_at": link.expires_at}


class _PersonView(generics.GenericAPIView[User]):
    def get_queryset(self) -> QuerySet[User]:
        return visible_people(caller(self.request))


class PersonListView(_PersonView, generics.ListAPIView[User]):
    """Everybody; POST invites somebody. For admins."""

    permission_classes = (IsAuthenticated, AdminsOnly)
    serializer_class = PersonSerializer

    @extend_schema(request=InvitationBody, responses={201: InvitedSerializer})
    def post(self, request: Request) -> Response:
        person, link = actions.invite(
            by=caller(request), given=read(InvitationBody(data=request.data))
        )
        shown = PersonSerializer(self.get_queryset().get(pk=person.pk)).data
        answer = {**shown, **_link_json(request, link)}
        return Response(answer, status=status.HTTP_201_CREATED)


class PersonDetailView(_PersonView, generics.RetrieveAPIView[User]):
    """One person; an admin changes name, role and team, disables and enables by PATCH."""

    serializer_class = PersonSerializer
    verbs: ClassVar = {"PATCH": "administer"}

    @extend_schema(request=PersonBody, responses=PersonSerializer)
    def patch(self, request: Request, pk: UUID) -> Response:
        actions.change(
            by=caller(request),
            person=self.get_object(),
            changes=read(PersonBody(data=request.data, partial=True)),
        )
        return Response(PersonSerializer(self.get_object()).data)


class PersonResetView(_PersonView):
    """Takes the password away, ends all sessions, and gives a link that sets a new one."""

    serializer_class = JoinLinkSerializer
    verbs: ClassVar = {"POST": "administer"}

    @extend_schema(request=ResetBody, responses=JoinLinkSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        link = actions.reset(
            by=caller(request), person=self.get_object(), **read(ResetBody(data=request.data))
        )
        return Response(_link_json(request, link))


class TeamSerializer(serializers.ModelSerializer[Team]):
    """Amounts as Kubernetes writes them; a budget of null is no limit."""

    leads = serializers.SerializerMethodField()
    members = serializers.IntegerField(source="member_count")
    budget = serializers.SerializerMethodField()
    quota_sum = serializers.SerializerMethodField()
    weight = serializers.IntegerField()

    class Meta:
        model = Team
        fields = ("id", "name", "leads", "members", "budget", "quota_sum", "weight")

    def get_leads(self, team: Team) -> list[str]:
        return sorted(person.username for person in team.leads.all())

    def get_budget(self, team: Team) -> dict[str, str | int | None]:
        lines = self.context["lines"][team.pk]
        return {line.kind: amount_json(line.kind, line.budget) for line in lines}

    def get_quota_sum(self, team: Team) -> dict[str, str | int | None]:
        lines = self.context["lines"][team.pk]
        return {line.kind: amount_json(line.kind, line.total) for line in lines}


class _TeamView(generics.GenericAPIView[Team]):
    serializer_class = TeamSerializer

    def get_queryset(self) -> QuerySet[Team]:
        found: QuerySet[Team] = Team.objects.visible_to(self.request.user).listed()
        return found

    def shown(self, listed: list[Team]) -> list[Any]:
        context = {"lines": lines_of_teams(listed)}
        return list(TeamSerializer(listed, many=True, context=context).data)

    def one(self) -> Any:
        return self.shown([self.get_object()])[0]


class TeamListView(_TeamView):
    """Teams that the caller belongs to or leads; all of them for an admin, who makes new ones."""

    verbs: ClassVar = {"POST": "administer"}

    @extend_schema(responses=TeamSerializer(many=True))
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.shown(list(page or ())))

    @extend_schema(request=TeamBody, responses={201: TeamSerializer})
    def post(self, request: Request) -> Response:
        team = teams.create(by=caller(request), changes=read(TeamBody(data=request.data)))
        made = self.get_queryset().get(pk=team.pk)
        return Response(self.shown([made])[0], status=status.HTTP_201_CREATED)


class TeamDetailView(_TeamView):
    """One team; an admin changes name, leads, budget and weight, and deletes it when it is empty."""

    verbs: ClassVar = {"PATCH": "administer", "DELETE": "administer"}

    @extend_schema(responses=TeamSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(self.one())

    @extend_schema(request=TeamChangeBody(partial=True), responses=TeamSerializer)
    def patch(self, request: Request, pk: UUID) -> Response:
        given = read(TeamChangeBody(data=request.data, partial=True))
        is_confirmed = given.pop("is_confirmed", False)
        teams.change(
            by=caller(request), team=self.get_object(), changes=given, is_confirmed=is_confirmed
        )
        return Response(self.one())

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        teams.delete(by=caller(request), team=self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)
