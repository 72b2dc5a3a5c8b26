"""Tests of `tileiras-tune`."""
