"""What is said of why a workload waits, failed or was stopped: the rows of `jobs.rules.reasons.ROWS`, by family.

In each module `ROWS`: code -> (sentence, next step); names in braces are the facts that `reasons.make` needs. A code is
in one of them.
"""
