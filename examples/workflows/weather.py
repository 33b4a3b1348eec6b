"""The tool of tool_loop.yaml and ../fault_replay.yaml."""

WEATHER = {"Bergen": "rain", "Oslo": "sun"}


def get_weather(city: str) -> dict[str, str]:
    """Look up today's weather.

    Args:
        city: the name of a city
    """
    return {"city": city, "weather": WEATHER.get(city, "unknown")}


def report(text: str) -> str:
    """Tell the weather, and end the search."""
    return text
