"""Labels and annotations that Homeport puts on what it makes, and selects by."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "homeport"
MANAGED_SELECTOR = f"{MANAGED_BY}={MANAGER}"

OWNER = "homeport.dev/owner"  # id of the row (tenant, job) that an object belongs to
NAMESPACE = "homeport.dev/namespace"  # on a volume of a purged tenant: where its claim was
ROLE = "homeport.dev/role"
INDEX = "homeport.dev/index"
ATTEMPT = "homeport.dev/attempt"
SEAL = "homeport.dev/seal"  # of a secret of a person: which values it has
# Of a pod that uploads what a lost replica has left: whose.
RESCUED_ROLE = "homeport.dev/rescued-role"
RESCUED_ATTEMPT = "homeport.dev/rescued-attempt"
# Set by the Job controller: https://kubernetes.io/docs/reference/labels-annotations-taints/
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

SPEC_HASH = "homeport.dev/spec-hash"  # of the document as rendered
KEY = "homeport.dev/key"  # of a gate's Secret: from which signing key its values are derived
PREFLIGHT = "homeport.dev/preflight"  # of a namespace of `manage.py preflight`: of which run
RECORD = "homeport.dev/record"  # on a namespace: whose it is (tenants/record.py)
WARNING = "homeport.dev/warning"  # a sentence that the tenant's page shows with the object
KEPT_OF = "homeport.dev/kept-of"  # on a volume of a purged tenant: whose data it holds, in words
