"""The report: every table and figure of the papers, from our runs beside the published figures."""
