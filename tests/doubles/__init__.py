"""Doubles for the outside doors: a hash encoder, a scripted language backend, a scripted OpenAI server."""
