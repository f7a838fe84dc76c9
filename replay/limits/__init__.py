"""How far a launch is from what its device can do: its work, the device's ceilings, the share of each."""
