"""The shapes of the kinds, distilled from Kubernetes 1.36.

`kubernetes.json` holds the definitions that onebox needs, one a line, with the first sentence of
each description, made by `distil` from api/openapi-spec/v3 of
https://github.com/kubernetes/kubernetes (tag v1.36.3). `wire.json` holds their protobuf field
numbers, made by `distil_wire` from https://github.com/kubernetes/api (tag v0.36.3). Both are
copyright the Kubernetes Authors, Apache License 2.0.
"""
