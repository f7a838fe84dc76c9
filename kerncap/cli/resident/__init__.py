"""`verify --resident`: a process of this user's that stays for some minutes, and answers the next command.

It holds what start-up costs: Python with kerncap, a process that has loaded torch and Triton, the workers of
the last reproducers. Each command's words are carried out there as they would be here. What is kept between
two verdicts, and what never is, `kerncap.replay.pool` says.
"""
