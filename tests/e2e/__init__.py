"""A real browser against a real portal on a real cluster."""
