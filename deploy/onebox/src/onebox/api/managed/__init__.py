"""Field ownership: who has set which field of an object (metadata.managedFields).

`track` follows creates, updates and patches; `apply` carries out a server-side apply. The rules
are those of https://github.com/kubernetes-sigs/structured-merge-diff (v6) as
https://github.com/kubernetes/apimachinery/tree/v0.36.3/pkg/util/managedfields uses it.
"""

from __future__ import annotations
