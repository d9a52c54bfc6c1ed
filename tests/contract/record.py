"""`python -m tests.contract.record [NAME ...]`: records the transcripts on upstream.

Starts a control plane, or uses the one of CONTRACT_KUBECONFIG. Without names all scripts are run;
a name may be a part of one. A script is run twice, and what is not the same both times is said and
not written: a transcript must not depend on chance.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.contract import transcripts
from tests.contract.clusters import Cluster, opened
from tests.contract.compare import differences
from tests.contract.script import Script, all_scripts, outcome

SIDE_BY_SIDE = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.record", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    scripts = all_scripts()
    chosen = [s for s in scripts.values() if not given.names or _is_named(s, given.names)]
    with opened("upstream") as cluster, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        together = [found for found in chosen if not found.is_alone]
        done = dict(
            zip(together, pool.map(lambda found: _record(found, cluster), together), strict=True)
        )
        done |= {found: _record(found, cluster) for found in chosen if found.is_alone}
        failed = [found.name for found, is_good in done.items() if not is_good]
    if not given.names:
        for name in transcripts.recorded() - scripts.keys():
            transcripts.file_of(name).unlink()
    print(f"{len(chosen) - len(failed)} of {len(chosen)} recorded", *failed, sep="\n  ")
    return 1 if failed else 0


def _is_named(found: Script, names: list[str]) -> bool:
    return any(name in found.name for name in names)


def _record(found: Script, cluster: Cluster) -> bool:
    runs = []
    for _ in range(2):
        steps, error = outcome(found, cluster.kube)
        if error is not None:
            print(f"{found.name}: {error}", file=sys.stderr)
            return False
        runs.append(steps)
    chance = differences(*runs)
    for difference in chance[:5]:
        print(f"{found.name} depends on chance: {difference}", file=sys.stderr)
    if not chance:
        transcripts.save(found.name, found.sentence, cluster.version, runs[0])
    return not chance


if __name__ == "__main__":
    sys.exit(main())
