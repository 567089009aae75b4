"""Hypothesis profiles: a few examples, always the same, in the test suite; `make fuzz` selects `long`."""

from hypothesis import HealthCheck, Phase, settings

CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
COMMON = {"deadline": None, "database": None, "suppress_health_check": CHECKS, "report_multiple_bugs": False}
# Finding the smallest example takes minutes, which only a long run has.
SUITE = {"derandomize": True, "max_examples": 12, "phases": [Phase.explicit, Phase.generate]}
settings.register_profile("suite", **COMMON, **SUITE)
settings.register_profile("long", **COMMON, max_examples=1_000, print_blob=True)
settings.load_profile("suite")
