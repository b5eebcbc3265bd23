"""Directions along which a level decreases forever, so there is no minimiser; said only if proved.

For g(x) = sum of w_i log(1 + exp(-<m_i, x>)) + (squares of Rx - s) + <c, x> on Z and a direction d
of Z (x + t d is in Z for every x in Z and t >= 0) with R d = 0, the slope of g along d tends to

    <c, d> + sum of w_i max(-<m_i, d>, 0)    from below.

If that is at most 0, and <c, d> < 0 or some <m_i, d> is not 0, then g(x + d) < g(x) for every x: no
x is a minimiser. This also applies to f among the minimisers of g, along a d that does not change
what all of them share. It holds for any d, wherever it comes from: from the path of a run
(`watch`), or from a linear program (`programs`). A d counts only if all of this holds for the
numbers as stored (`level`), rounding errors included (`direction`).
"""
