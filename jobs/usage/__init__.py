"""How long pods held what they held: intervals written by the reconciler, and GPU-hours counted from them."""
