"""REST of people and teams, for admins; people see their own teams."""

from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, generics, serializers, status
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from portal.web.rest import AdminsOnly, source_address
from tenants.models import Team, User
from tenants.people import actions, passwords, teams
from tenants.people.listing import state_of, with_teams
from tenants.people.submission import (
    InvitationBody,
    PersonBody,
    ResetBody,
    TeamBody,
    parse,
    parse_invitation,
)
from tenants.quota import rules as quota


def may_change(user: User) -> User:
    """The caller, who wants to change what they see.

    Raises:
        PermissionDenied: no admin, or one with a token without the scope `admin`.
    """
    if not user.may("administer"):
        raise exceptions.PermissionDenied("only admins may do this")
    return user


class PersonSerializer(serializers.ModelSerializer[User]):
    team = serializers.CharField(source="team.name", allow_null=True, default=None)
    leads = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField()
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

    def get_leads(self, person: User) -> list[str]:
        return person.teams_led

    @extend_schema(responses=serializers.ChoiceField(choices=["active", "invited", "disabled"]))
    def get_state(self, person: User) -> str:
        return state_of(person)


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


def people(viewer: User) -> QuerySet[User]:
    """People that somebody may see (oneself; everybody for an admin), with all that is shown."""
    shown = with_teams(User.objects.all())
    seen = shown if viewer.may("administer") else shown.filter(pk=viewer.pk)
    return seen.order_by("username")


class PersonListView(generics.ListAPIView[User]):
    """Everybody; POST invites somebody. For admins."""

    permission_classes = (IsAuthenticated, AdminsOnly)
    serializer_class = PersonSerializer

    def get_queryset(self) -> QuerySet[User]:
        return people(_caller(self.request))

    @extend_schema(request=InvitationBody, responses={201: InvitedSerializer})
    def post(self, request: Request) -> Response:
        person, link = actions.invite(
            by=_caller(request),
            invitation=parse_invitation(request.data),
            source_address=source_address(request),
        )
        shown = PersonSerializer(self.get_queryset().get(pk=person.pk)).data
        answer = {**shown, **_link_json(request, link)}
        return Response(answer, status=status.HTTP_201_CREATED)


class PersonDetailView(generics.RetrieveAPIView[User]):
    """One person; an admin changes name, role and team, disables and enables by PATCH."""

    serializer_class = PersonSerializer

    def get_queryset(self) -> QuerySet[User]:
        return people(_caller(self.request))

    @extend_schema(request=PersonBody, responses=PersonSerializer)
    def patch(self, request: Request, pk: UUID) -> Response:
        person = self.get_object()
        by = may_change(_caller(request))
        changes = parse(PersonBody, request.data, is_partial=True)
        actions.change(
            by=by,
            person=person,
            changes=changes,
            source_address=source_address(request),
        )
        return Response(PersonSerializer(self.get_object()).data)


class PersonResetView(generics.GenericAPIView[User]):
    """Takes the password away, ends all sessions, and gives a link that sets a new one."""

    serializer_class = JoinLinkSerializer

    def get_queryset(self) -> QuerySet[User]:
        return people(_caller(self.request))

    @extend_schema(request=ResetBody, responses=JoinLinkSerializer)
    def post(self, request: Request, pk: UUID) -> Response:
        person = self.get_object()
        by = may_change(_caller(request))
        link = actions.reset(
            by=by,
            person=person,
            source_address=source_address(request),
            **parse(ResetBody, request.data),
        )
        return Response(_link_json(request, link))


class TeamSerializer(serializers.ModelSerializer[Team]):
    """Amounts as Kubernetes writes them; a budget of null is no limit."""

    leads = serializers.SerializerMethodField()
    members = serializers.IntegerField(source="member_count")
    budget = serializers.SerializerMethodField()
    quota_sum = serializers.SerializerMethodField()

    class Meta:
        model = Team
        fields = ("id", "name", "leads", "members", "budget", "quota_sum")

    def get_leads(self, team: Team) -> list[str]:
        return sorted(person.username for person in team.leads.all())

    def get_budget(self, team: Team) -> dict[str, str | int | None]:
        amounts = {kind: getattr(team, column) for kind, column in quota.BUDGET_COLUMNS.items()}
        return {kind: _amount_json(kind, amount) for kind, amount in amounts.items()}

    def get_quota_sum(self, team: Team) -> dict[str, str | int | None]:
        sums = self.context["sums"].get(team.pk, {})
        return {kind: _amount_json(kind, sums.get(kind, 0)) for kind in quota.BUDGET_COLUMNS}


def _amount_json(kind: str, amount: int | None) -> str | int | None:
    return amount if kind == "gpu" or amount is None else quota.amount_text(kind, amount)


class _TeamView(generics.GenericAPIView[Team]):
    serializer_class = TeamSerializer

    def get_queryset(self) -> QuerySet[Team]:
        found: QuerySet[Team] = Team.objects.visible_to(self.request.user)
        counted = found.annotate(member_count=Count("members", distinct=True))
        return counted.prefetch_related("leads").order_by("name")

    def shown(self, listed: list[Team]) -> list[Any]:
        sums = quota.quota_sums([team.pk for team in listed])
        return list(TeamSerializer(listed, many=True, context={"sums": sums}).data)

    def one(self, pk: UUID) -> Any:
        return self.shown([get_object_or_404(self.get_queryset(), pk=pk)])[0]


class TeamListView(_TeamView):
    """Teams that the caller belongs to or leads; all of them for an admin, who makes new ones."""

    @extend_schema(responses=TeamSerializer(many=True))
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.shown(list(page or ())))

    @extend_schema(request=TeamBody, responses={201: TeamSerializer})
    def post(self, request: Request) -> Response:
        by = may_change(_caller(request))
        changes = parse(TeamBody, request.data)
        team = teams.create(by=by, changes=changes, source_address=source_address(request))
        return Response(self.one(team.pk), status=status.HTTP_201_CREATED)


class TeamDetailView(_TeamView):
    """One team; an admin changes name, leads and budget, and deletes it when it is empty."""

    @extend_schema(responses=TeamSerializer)
    def get(self, request: Request, pk: UUID) -> Response:
        return Response(self.one(pk))

    @extend_schema(request=TeamBody(partial=True), responses=TeamSerializer)
    def patch(self, request: Request, pk: UUID) -> Response:
        team = get_object_or_404(self.get_queryset(), pk=pk)
        by = may_change(_caller(request))
        changes = parse(TeamBody, request.data, is_partial=True)
        teams.change(by=by, team=team, changes=changes, source_address=source_address(request))
        return Response(self.one(pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: UUID) -> Response:
        team = get_object_or_404(self.get_queryset(), pk=pk)
        teams.delete(
            by=may_change(_caller(request)), team=team, source_address=source_address(request)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


def _caller(request: Any) -> User:
    assert isinstance(request.user, User)
    return request.user
