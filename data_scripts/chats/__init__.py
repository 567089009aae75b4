"""A user's own chat logs."""
