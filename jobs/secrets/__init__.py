"""Secrets of people: written and never read. The web process encrypts values into the row, the reconciler
moves them into the cluster (`jobs/engine/secrets.py`), and nothing gives them back.
"""
