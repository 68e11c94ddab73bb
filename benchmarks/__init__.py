"""Benchmarks of evireform: see README.md beside this file."""
