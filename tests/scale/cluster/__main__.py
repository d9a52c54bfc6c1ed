"""`python -m tests.scale.cluster`: see run.py."""

from tests.scale.cluster.run import main

main()
