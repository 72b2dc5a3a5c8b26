"""Analyses: pure functions from IR to facts; nothing here changes a program."""
