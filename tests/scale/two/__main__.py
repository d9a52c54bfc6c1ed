"""`python -m tests.scale.two`: see run.py."""

from tests.scale.two.run import main

main()
