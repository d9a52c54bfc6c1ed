"""The API half of onebox: the part of the Kubernetes API that Homeport and kubectl need."""
