"""The machine of a measurement: its cores and versions, what processes use, and what others do."""
