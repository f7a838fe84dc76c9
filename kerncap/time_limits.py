"""How long the steps of a replay may take, in seconds; past it the worker is killed."""

LAUNCH_S = 60.0  # one launch, unless --timeout says otherwise
START_S = 300.0  # torch and Triton from a cold disk
GRACE_S = 15.0  # beyond a launch's own limit, for what the worker does around it
