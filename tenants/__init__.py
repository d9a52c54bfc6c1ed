"""Who owns what: people, teams, tenants, quotas."""
