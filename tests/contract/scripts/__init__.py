"""Behaviours as sequences of requests; each was played on upstream, which wrote its transcript."""
