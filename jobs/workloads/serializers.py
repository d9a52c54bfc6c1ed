"""What REST is sent and answers beside the workloads themselves."""

from typing import Any

from rest_framework import serializers

from jobs import pruning
from jobs.kinds.training.asked import FieldOverride
from jobs.kinds.training.serializer import MAX_SECONDS
from jobs.kinds.training.spec import PRIORITIES
from jobs.models import Artifact, Bundle
from jobs.rules.states import FINAL_STATES
from portal.web.fields import Body, Duration

HINTS = "what of the command a shell would treat otherwise, and what to write, in sentences"


class StopSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class FitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["now", "later", "never"])
    text = serializers.CharField()


class PreviewSerializer(serializers.Serializer[Any]):
    fit = FitSerializer()
    hints = serializers.ListField(child=serializers.CharField(), help_text=HINTS)
    manifests = serializers.CharField(help_text="YAML documents")


_STATES = ("accepted", "queued", "refused")


class TriedSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    name = serializers.CharField()
    state = serializers.ChoiceField(_STATES)
    text = serializers.CharField(help_text="what the cluster says against it; else empty")


class DryRunSerializer(serializers.Serializer[Any]):
    """What the cluster would say to a request."""

    state = serializers.ChoiceField(_STATES)
    fit = FitSerializer()
    hints = serializers.ListField(child=serializers.CharField(), help_text=HINTS)
    objects = TriedSerializer(many=True)


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    class Meta:
        model = Artifact
        fields = ("id", "path", "size_bytes", "uploaded_at")


class BundleSerializer(serializers.ModelSerializer[Bundle]):
    class Meta:
        model = Bundle
        fields = ("id", "file_name", "sha256", "size_bytes", "created_at")


class ChangeSerializer(Body):
    """A field that the sender says in place of the file."""

    field = serializers.ListField(
        child=serializers.CharField(max_length=200),
        min_length=1,
        max_length=8,
        help_text='names on the way to it: ["replicas", "worker", "cpu"]',
    )
    value = serializers.JSONField(allow_null=True)

    def to_internal_value(self, data: Any) -> Any:
        found = super().to_internal_value(data)
        return FieldOverride(tuple(found["field"]), found["value"])


class DocumentSerializer(Body):
    """A file that describes a training."""

    text = serializers.CharField(
        trim_whitespace=False, allow_blank=True, help_text="YAML, of which JSON is a part"
    )
    changes = ChangeSerializer(many=True, default=list)
    has_code = serializers.BooleanField(
        default=False, help_text="code follows, and names the training where nothing else does"
    )


class AskedSerializer(serializers.Serializer[Any]):
    """What a file asks for."""

    body = serializers.DictField(help_text="of `jobs/`")
    dir = serializers.CharField(
        source="folder",
        allow_null=True,
        help_text="of `source.dir`: a folder beside the file, with the code that is still to be sent",
    )
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="what was not taken as it stands in the file"
    )


class UploadedSerializer(BundleSerializer):
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="what of it will probably fail, in sentences"
    )

    class Meta(BundleSerializer.Meta):
        fields = (*BundleSerializer.Meta.fields, "notes")  # type: ignore[assignment]


_ENDED = sorted(state.value for state in FINAL_STATES)


class PrioritySerializer(Body):
    """How urgent a training is."""

    priority = serializers.ChoiceField(choices=PRIORITIES)


class DeadlineSerializer(Body):
    """The whole time limit of a training."""

    deadline_s = Duration(least=1, most=MAX_SECONDS)


class OrderSerializer(Body):
    """Where in the own queue a training goes."""

    to = serializers.ChoiceField(choices=("front", "back"))


class PruneSerializer(Body):
    """Which finished trainings are deleted."""

    older_than = Duration(
        most=100 * 365 * 86400, help_text='since they ended: seconds, or text such as "30d"'
    )
    states = serializers.MultipleChoiceField(
        choices=_ENDED, required=False, allow_empty=False, help_text="all of them when absent"
    )
    before = serializers.DateTimeField(
        required=False,
        help_text="as a dry run answered it: what has come of age since then is not deleted",
    )
    dry_run = serializers.BooleanField(default=True)


class HeldSerializer(serializers.Serializer[Any]):
    state = serializers.CharField()
    count = serializers.IntegerField()
    logs_bytes = serializers.IntegerField()
    artifacts_bytes = serializers.IntegerField()


class PrunedSerializer(serializers.Serializer[Any]):
    """What would go, or what has gone with this call."""

    dry_run = serializers.BooleanField(source="is_dry")
    before = serializers.DateTimeField(help_text="they ended before this time")
    states = HeldSerializer(many=True, source="held.states")
    count = serializers.IntegerField(source="held.count")
    logs_bytes = serializers.IntegerField(source="held.logs_bytes")
    artifacts_bytes = serializers.IntegerField(source="held.artifacts_bytes")
    remaining = serializers.IntegerField(help_text="that match and are still there")
    note = serializers.SerializerMethodField(help_text="what is not deleted")

    def get_note(self, pruned: Any) -> str:
        return pruning.folders_note()


class LinkSerializer(serializers.Serializer[Any]):
    """A link that opens it once."""

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()
