"""For tests of what runs on onebox: a whole one, its API alone, a client, a look at processes.

`start(home)` is a real process; `Box(clock)` has the API and its controllers in this process;
`Kube(kubeconfig)` is a small client.
"""

from onebox.testing.box import Box, Clock, Life, scripted
from onebox.testing.cluster import IN_PLAIN_CONTAINER, OneBox, as_user, launch, start
from onebox.testing.kube import Kube, RefusedError, Space

__all__ = [
    "IN_PLAIN_CONTAINER",
    "Box",
    "Clock",
    "Kube",
    "Life",
    "OneBox",
    "RefusedError",
    "Space",
    "as_user",
    "launch",
    "scripted",
    "start",
]
