"""Leads: what their team holds, runs and has used."""
