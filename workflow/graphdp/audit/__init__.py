"""Attacks on the code that makes the releases: lower bounds on ε, to hold against the claims."""
