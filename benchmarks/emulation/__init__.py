"""An emulated cluster on one Linux machine: `pybsp emulate -n 8 --latency 2ms --rate 200mbit -- python program.py`.

link.py      latency and line rate of the emulated network, as a person writes them
switch.py    the user-space Ethernet switch: when frames arrive, and the loop that forwards them
hosts.py     emulated hosts: namespaces whose only way out is a TAP device on the switch
launch.py    runs a command under mpiexec across the hosts
command.py   the command `emulate`

Nothing here has a name outside: a host is a process that ends with this one, and its namespaces and its interface end
with it, so nothing is left however this process ends.
"""
