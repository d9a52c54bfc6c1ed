"""Row M15: seconds of real programs of each topology from the submit to `succeeded`, with images pulled.

The proofs of tests/e2e and the first training, on the embedded cluster: each once for its image and once for its
time. The goals are those of two idle cores.
"""

from time import monotonic

from tests.bench.results import Result, at_most
from tests.e2e import test_first_training as first
from tests.e2e.portal import Portal, Rest, new_home, thrown_away
from tests.e2e.proofs import TORCH, run_to_the_end
from tests.e2e.test_topologies import PROOFS


def proofs() -> list[Result]:
    """A result for each; what needs Debian's PyTorch is left out where that is not installed."""
    with thrown_away(Portal(new_home("bench-proofs"))) as portal:
        ada = portal.sign_in("ada")
        ada.tenant()
        found = []
        for proof in (one for one in PROOFS if not one.gpus):
            if "torch" not in proof.image or TORCH.exists():
                run_to_the_end(ada, proof.script, **proof.body)
                began = monotonic()
                run_to_the_end(ada, proof.script, **proof.body)
                found.append(_result(str(proof), monotonic() - began, proof.budget_s))
        return [_first_training(ada), *found]


def _first_training(ada: Rest) -> Result:
    body = {key: value for key, value in first.BODY.items() if key != "name"}
    for _ in range(2):
        began = monotonic()
        run_to_the_end(ada, first.SCRIPT, **body)
    return _result("tf-ps ps_v1.py", monotonic() - began, 15)


def _result(what: str, took_s: float, budget_s: float) -> Result:
    return Result("M15", f"submit to succeeded: {what}", took_s, at_most(budget_s), unit="s")
