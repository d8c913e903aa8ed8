"""Messages, and what travels with them.

What is where:

    mail.py        `bsp.send` and `bsp.inbox`
    outgoing.py    what goes to one destination with the next sync
    agreement.py   do all processors do the same
    poison.py      what checked mode leaves where received data was
"""
