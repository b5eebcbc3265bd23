"""Directions along which a level provably decreases forever, so that there is no minimiser.

For g(x) = sum of w_i log(1 + exp(-<m_i, x>)) + (squares of Rx - s) + <c, x> on Z and a direction d
of Z (x + t d is in Z for every x in Z and t >= 0) with R d = 0, the slope of g along d tends, from
below, to the limit

    <c, d> + sum of w_i max(-<m_i, d>, 0).

If this limit is at most 0, and <c, d> < 0 or some <m_i, d> is not 0, then g(x + d) < g(x) for every
x, so no x is a minimiser. The argument also applies to f restricted to the minimisers of g, along
any d that leaves unchanged the products that have the same value at all minimisers. The argument
holds for any d, from the path of a run (`watch`) or from a linear program (`programs`). A direction
d is accepted only if these conditions hold for the stored numbers (`level`), rounding errors
included (`direction`).
"""
