"""Work in other processes and on other machines: forked workers, actors of a Ray cluster, and their jobs."""
