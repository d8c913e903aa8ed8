"""Communication primitives, written against the public BSP interface alone; one algorithm a file."""
