"""The viewer: the recordings, explorations, scenario runs and workflow runs of a folder, as pages of a local server."""
