"""Recordings in Redis or Valkey, shared by many machines."""
