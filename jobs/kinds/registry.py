"""All kinds of workloads, by their keys."""

from collections.abc import Mapping

from jobs.kinds.base import WorkloadKind
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.kinds.training.kind import TRAINING

KINDS: Mapping[str, WorkloadKind] = {kind.key: kind for kind in (TRAINING, NOTEBOOK, TENSORBOARD)}
