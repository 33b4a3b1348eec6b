"""understudy demo: what all this is good for, in a few seconds."""


def demo() -> None:
    """Replay a support workflow, break it three times, change a prompt: offline, without a key, in a few seconds.

    [bold]Examples[/bold]

      understudy demo
    """
    from importlib.resources import as_file, files

    from understudy.cli.demonstration import Demonstration

    with as_file(files("understudy").joinpath("templates", "demo")) as folder:
        Demonstration(folder).show()
