"""Mutation testing: changes the code in small ways, one at a time, and counts the changes that the tests detect."""
