"""The kind of trainings."""

from jobs.kinds.base import WorkloadKind
from jobs.kinds.training.lifecycle import TrainingLifecycle

TRAINING = WorkloadKind("job", TrainingLifecycle)
