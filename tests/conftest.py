"""What holds for every test: Hypothesis judges what it finds, and not how long that took.

Other processes have the same cores, and one that stands still for a moment is no finding.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("homeport", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("homeport")
