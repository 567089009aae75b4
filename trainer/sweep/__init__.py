"""Many runs: sweeps over settings, their comparison, runs with several seeds."""
