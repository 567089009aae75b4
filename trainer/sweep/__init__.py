"""Many runs: sweeps, their comparison, seeds."""
