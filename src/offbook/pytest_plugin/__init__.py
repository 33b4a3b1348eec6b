"""The pytest plugin: a fixture that records and replays, explored tests, and scenarios as test items."""
