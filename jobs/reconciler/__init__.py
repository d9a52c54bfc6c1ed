"""Makes the cluster follow the jobs' rows: observe, plan (pure), apply, in one loop."""
