"""What REST is sent and answers beside the workloads themselves."""

from typing import Any

from rest_framework import serializers

from jobs.models import Artifact, Bundle


class StopSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class FitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["now", "later", "never"])
    text = serializers.CharField()


class PreviewSerializer(serializers.Serializer[Any]):
    fit = FitSerializer()
    manifests = serializers.CharField(help_text="YAML documents")


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    class Meta:
        model = Artifact
        fields = ("id", "path", "size_bytes", "uploaded_at")


class BundleSerializer(serializers.ModelSerializer[Bundle]):
    class Meta:
        model = Bundle
        fields = ("id", "file_name", "sha256", "size_bytes", "created_at")


class LinkSerializer(serializers.Serializer[Any]):
    """A link that opens it once."""

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()
