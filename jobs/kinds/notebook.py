"""Notebooks: JupyterLab in an image of the user's choice."""

from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.lifecycle import InteractiveLifecycle
from jobs.kinds.interactive.manifests import complete, render
from jobs.kinds.interactive.observe import observe, read_pod
from jobs.kinds.interactive.startup import App


class NotebookLifecycle(InteractiveLifecycle):
    app = App("the notebook", "JupyterLab")


NOTEBOOK = WorkloadKind("notebook", NotebookLifecycle, read_pod, observe, render, complete)
