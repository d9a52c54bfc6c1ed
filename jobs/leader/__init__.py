"""Who may write: one reconciler at a time, and the clock of its timers."""
