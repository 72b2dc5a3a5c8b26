"""Tests of what surrounds the compiler: signals, files, limits, crashes."""
