"""Foundations without policy: errors, schedules, seeding, spaces, statistics, returns, logging."""
