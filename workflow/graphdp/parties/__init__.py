"""Sums by key of rows that users send in shares: several parties, a shuffler and a server.

What is proven of it is in `graphdp.privacy.pair_sums`. Here it is done:

    fixed_point.py   rows as whole numbers, and a party's noise on them
    shares.py        shares, masks, schedules, and how many bytes go over each link
    memory.py        the same sums in one process, bit for bit
    frames.py        authenticated frames over streams
    places.py        hosts, how processes are started there, certificates
    ring.py          what rows and sums are as numbers
    process.py       what parties' and shuffler's processes have in common
    party.py         a computing party's process
    shuffler.py      the shuffler's process
    session.py       starts them, sends for the users, and opens the sums as the server

Parties and shuffler import neither torch nor pydantic nor what accounts, so that they start in a
fraction of a second.
"""
