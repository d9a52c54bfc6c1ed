"""TensorBoards: the program of that name over the log folders of trainings."""

from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.lifecycle import InteractiveLifecycle
from jobs.kinds.interactive.manifests import complete, render
from jobs.kinds.interactive.observe import observe, read_pod
from jobs.kinds.interactive.startup import App


class TensorBoardLifecycle(InteractiveLifecycle):
    app = App("the TensorBoard", "TensorBoard")


TENSORBOARD = WorkloadKind("tensorboard", TensorBoardLifecycle, read_pod, observe, render, complete)
