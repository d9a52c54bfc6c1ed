"""The audit trail: who changed what, searched, shown and exported."""
