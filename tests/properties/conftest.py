"""How many examples hypothesis tries of a property; `make test-properties EXAMPLES=20000` sets it.

Properties whose examples take longer try a share of this number. The properties of
`make test-semantics` have numbers of their own.
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
settings.register_profile("CI", shared, max_examples=250, derandomize=reproducible)
settings.register_profile("long", shared, max_examples=LONG or 20_000)
settings.load_profile("long" if LONG else "CI")
