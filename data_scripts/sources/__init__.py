"""The commands that write datasets: each module reads one kind of source."""
