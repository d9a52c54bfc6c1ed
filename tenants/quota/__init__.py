"""Quotas of tenants: what may be set, and where people set it."""
