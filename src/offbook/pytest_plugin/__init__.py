"""The pytest plugin: a fixture that records and replays, and scenarios as test items."""
