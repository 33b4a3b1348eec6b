"""The tool of a program, which is taken over."""


def greet(text: str) -> str:
    raise RuntimeError(f"{text} was answered by the function itself")
