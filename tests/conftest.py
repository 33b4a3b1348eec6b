"""Settings for the whole suite."""

from hypothesis import settings

settings.register_profile("understudy", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("understudy")

pytest_plugins = ["pytester"]
