"""Modulo schedules of loops with asynchronous products: costs, schedule, rotation."""
