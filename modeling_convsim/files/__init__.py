"""Reads and writes files, folders and datasets, on a disk, at URLs and on the Hub; shared by all packages."""
