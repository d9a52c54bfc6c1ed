"""Tests of a whole onebox: supervisor, API half and node, spoken to by HTTP and kubectl."""
