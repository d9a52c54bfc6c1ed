"""People and teams: inviting, disabling, roles, sessions, tokens, signing in."""
