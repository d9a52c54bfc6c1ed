"""REST by which admins hold nodes and release them; `HoldBody` is also what their page reads."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.models import Workload
from jobs.scheduling import holds
from jobs.scheduling.models import NodeHold
from portal.errors import Refused
from portal.web.fields import Body, Text, TextLine, TrueOrFalse
from portal.web.permissions import AdminsOnly
from portal.web.rest import read
from tenants.authentication import caller

_LATE = timedelta(hours=1)  # what was typed for "now" is sent, and confirmed, a while later
_MOST_AHEAD = timedelta(days=365)


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(Text):
    """A time from about now to a year ahead; without a zone it is UTC."""

    default_error_messages = {
        "invalid_time": _("Enter a time in UTC, such as 2026-11-27T18:00; {given} is not one."),
        "over": _("This time is over; leave it out to begin now."),
        "far": _("This must be within a year."),
    }

    def to_internal_value(self, data: Any) -> datetime:  # type: ignore[override]
        text = super().to_internal_value(data)
        try:
            found = parse_datetime(text)
        except ValueError:  # the 31st of February
            found = None
        if found is None:
            self.fail("invalid_time", given=repr(text[:40]))
        at, now = found if found.tzinfo else found.replace(tzinfo=UTC), timezone.now()
        wrong = "over" if at < now - _LATE else "far" if at > now + _MOST_AHEAD else ""
        if wrong:
            raise serializers.ValidationError(self.error_messages[wrong], "out_of_range")
        return at.astimezone(UTC)


class NodesBody(Body):
    """A node, or a pool."""

    default_error_messages = {"one_of": _("Send either node or pool.")}

    node = TextLine(most=253, required=False, default="", help_text="the name of one")
    pool = TextLine(
        most=253, required=False, default="", help_text="all nodes that this pool has now"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs["node"]) == bool(attrs["pool"]):
            self.fail("one_of")
        return attrs


class HoldBody(NodesBody):
    """Which nodes are held, and from when on."""

    from_at = Moment(required=False, default=None, label=_("From (UTC)"), help_text="null: now")
    reason = TextLine(most=200, required=False, default="", label=_("Reason"))
    confirm = TrueOrFalse(
        required=False, default=False, help_text="also where promises to others end by it"
    )
    dry_run = TrueOrFalse(required=False, default=False, help_text="only what it would do")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        now = timezone.now().replace(microsecond=0)
        return super().validate({**attrs, "from_at": attrs["from_at"] or now})


class HoldSerializer(serializers.Serializer[Any]):
    """A hold of a node."""

    from_at = serializers.DateTimeField()
    reason = serializers.CharField()
    held_by = serializers.CharField()


class NodeHoldSerializer(HoldSerializer):
    """A hold, with its node."""

    node = serializers.CharField()


class HeldWorkloadSerializer(serializers.Serializer[Any]):
    """Something that runs on a node beyond the time from which it is held."""

    kind = serializers.CharField()
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    ends_by = serializers.DateTimeField(allow_null=True, help_text="null: it has no deadline")


class MovedPromiseSerializer(serializers.Serializer[Any]):
    """Something that waits, whose room would no longer be kept there."""

    kind = serializers.CharField()
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    starts_at = serializers.DateTimeField(allow_null=True, help_text="null: no time was promised")


class HoldEffectsSerializer(serializers.Serializer[Any]):
    """What holding some nodes does."""

    nodes = serializers.ListField(child=serializers.CharField())
    from_at = serializers.DateTimeField()
    stays = HeldWorkloadSerializer(many=True, help_text="goes on; Homeport never stops it")
    stops = HeldWorkloadSerializer(many=True, help_text="of low priority, stopped one grace before")
    moves = MovedPromiseSerializer(many=True)
    kept = NodeHoldSerializer(many=True, help_text="of a pool: held earlier already; stays so")
    replaced = NodeHoldSerializer(many=True, help_text="holds from before that end")


def hold_json(row: NodeHold | None) -> dict[str, Any] | None:
    """A hold as REST shows it at its node."""
    if row is None:
        return None
    return {"from_at": row.from_at, "reason": row.reason, "held_by": row.held_by}


def _workload_json(row: Workload, **more: Any) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "id": row.pk,
        "name": row.name,
        "owner": row.owner.username,
        **more,
    }


class ReleasedSerializer(serializers.Serializer[Any]):
    """What was held, and is not any more."""

    nodes = serializers.ListField(child=serializers.CharField())
    kept = NodeHoldSerializer(
        many=True, help_text="of a pool: held apart from the others; stays so"
    )


class HoldListView(APIView):
    """Holds a node, or the nodes of a pool, from a time on."""

    permission_classes = (IsAuthenticated, AdminsOnly)

    @extend_schema(request=HoldBody, responses=HoldEffectsSerializer)
    def post(self, request: Request) -> Response:
        asked = read(HoldBody(data=request.data))
        names = holds.nodes_of(node=asked["node"], pool=asked["pool"])
        of_pool, reason = bool(asked["pool"]), asked["reason"]
        effects = holds.effects_of(names, asked["from_at"], reason, of_pool=of_pool)
        if not asked["dry_run"]:
            holds.hold(
                by=caller(request),
                nodes=names,
                from_at=asked["from_at"],
                reason=reason,
                confirmed=None if asked["confirm"] else (),
                of_pool=of_pool,
            )
        return Response(
            {
                "nodes": names,
                "from_at": asked["from_at"],
                "stays": [_workload_json(r, ends_by=r.room_ends_by) for r in effects.stays],
                "stops": [_workload_json(r, ends_by=r.room_ends_by) for r in effects.stops],
                "moves": [
                    _workload_json(one.workload, starts_at=one.starts_at) for one in effects.moves
                ],
                "kept": NodeHoldSerializer(effects.kept, many=True).data,
                "replaced": NodeHoldSerializer(effects.replaced, many=True).data,
            }
        )


class ReleaseView(APIView):
    """Releases a node, or those of a pool that are held; also a node that is gone from the cluster."""

    permission_classes = (IsAuthenticated, AdminsOnly)

    @extend_schema(request=NodesBody, responses=ReleasedSerializer)
    def post(self, request: Request) -> Response:
        asked = read(NodesBody(data=request.data))
        names = [asked["node"]] if asked["node"] else holds.nodes_of(pool=asked["pool"])
        of_pool = bool(asked["pool"])
        released, kept = holds.release(by=caller(request), nodes=names, of_pool=of_pool)
        if not released:
            raise Refused(gettext("It is not held."), "wrong_state", 409)
        return Response({"nodes": released, "kept": NodeHoldSerializer(kept, many=True).data})
