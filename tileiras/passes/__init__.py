"""Analyses, conversions and optimisations between the dialects.

Every pass is an `IrPass` and has one row in `tileiras.registry`; `tileiras.pipeline` says in which
order they run and why. Nothing is imported here: a compilation loads only the passes that it runs.
"""
