"""How many examples hypothesis tries of the properties that go from files to batches.

Other properties say their own number.
"""

import os

from hypothesis import HealthCheck, settings

LONG = int(os.environ.get("EXAMPLES", "0"))

shared = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# In CI the examples are the same at each run, so that a failure is that of the change.
reproducible = os.environ.get("CI") == "true"
settings.register_profile("CI", shared, max_examples=500, derandomize=reproducible)
settings.register_profile("long", shared, max_examples=LONG or 20_000)
settings.load_profile("long" if LONG else "CI")
