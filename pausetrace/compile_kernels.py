"""Has the kernels of both steps and of the fabric's model compiled: `python -m pausetrace.compile_kernels`.

In: nothing. Out: compiled code in Numba's cache, where who runs them will look; about a minute
the first time, and a second later.
"""

from __future__ import annotations

import os

from pausetrace.kernel_cache import choose_kernel_cache


def main() -> None:
    """Compiles them."""
    choose_kernel_cache(os.environ)
    # Numba reads where its cache is when it is first imported.
    from analytics.warm_up import warm_up
    from simulation.fabric.warm_up import warm_up as warm_up_fabric

    warm_up()
    warm_up_fabric()


if __name__ == "__main__":
    main()
