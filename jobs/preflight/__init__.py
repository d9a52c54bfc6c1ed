"""Whether a cluster has what Homeport needs, tried as its administrator: `manage.py preflight`."""
