"""Makes the cluster follow the rows of tenants."""
