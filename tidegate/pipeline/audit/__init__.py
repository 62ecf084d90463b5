"""Audits: what lies in a location beside what refers to it."""
