"""The two ways in which pods can be made: with namespaces, or without where they are refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from onebox.node.plain import trial as plain_trial
from onebox.node.plain.loopback import Loopback
from onebox.node.pod import Pod
from onebox.node.spec import PodSpec
from onebox.node.trial import explain_refusal, run_trial
from onebox.node.wire import Fields

CreatePod = Callable[[PodSpec], Awaitable[Pod]]
Locate = Callable[[str, int], tuple[str, int]]
"""Where an address of the cluster network is to be connected to."""


@dataclass(frozen=True)
class Kind:
    """What a holder is, as the sandbox has to know it.

    Args:
        mode: as in `Sandbox.mode`.
        holder: the module that is its program.
        end_signal: upon which a pod's init ends with its whole pod.
        prove: runs a throw-away pod; returns sentences about what is weak.
        locate: from the holder's first word, how to reach addresses of the cluster network.
        explain: a stage and an error, in a sentence.
    """

    mode: str
    holder: str
    end_signal: signal.Signals
    prove: Callable[[CreatePod, Path], Awaitable[tuple[str, ...]]]
    locate: Callable[[Fields], Locate]
    explain: Callable[[str, str], str]


def _explain_namespaces(stage: str, error: str) -> str:
    return explain_refusal(stage, error, is_root=os.getuid() == 0)


NAMESPACES = Kind(
    mode="root" if os.getuid() == 0 else "user",
    holder="onebox.node.holder",
    end_signal=signal.SIGKILL,
    prove=run_trial,
    locate=lambda _fields: lambda ip, port: (ip, port),
    explain=_explain_namespaces,
)
PLAIN = Kind(
    mode="plain",
    holder="onebox.node.plain.holder",
    end_signal=signal.SIGTERM,
    prove=plain_trial.run_trial,
    locate=lambda fields: Loopback(*fields["loopback"]).locate,
    explain=plain_trial.explain_refusal,
)
