"""The algorithms of *The E-BSP model* (Juurlink and Wijshoff), sections 4 and 5; one a file."""
