"""Rules that remove texts; functions that measure, clean, normalize and mask texts."""
