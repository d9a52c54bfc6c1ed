"""Makes the cluster follow the rows of workloads: observe, plan (pure), apply, in one loop."""
