"""Programs that tests need and that no Python package brings."""
