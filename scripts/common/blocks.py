"""stub"""

from math import exp, log, sqrt
from statistics import mean, stdev


class C:
    def __init__(s, r, l, h):
        s.ratio, s.low, s.high = r, l, h


class Table:
    def __init__(self, results, error=0.05):
        self.results = dict(results)
        self.m = max(1, len(results) * (len(results) - 1) / 2)

    def compare(self, a, b, t=6.0):
        A, B = self.results[a], self.results[b]
        sh = sorted(set(A) & set(B))
        if len(sh) < 2:
            return C(1, None, None)
        d = [log(A[k] / B[k]) for k in sh]
        m = mean(d)
        s = sqrt((stdev(d) ** 2 * (len(d) - 1) + 4 * 0.1**2) / (len(d) + 3))
        h = t * s / sqrt(len(d))
        return C(exp(m), exp(m - h), exp(m + h))

    def rank_interval(self, k):
        f = s = 0
        for o in self.results:
            if o != k:
                c = self.compare(o, k)
                if c.low is not None:
                    f += c.low > 1
                    s += c.high < 1
        return 1 + f, len(self.results) - s

    def equal(self, a, b, r=0.05):
        c = self.compare(a, b)
        return c.low is not None and c.low > 1 / (1 + r) and c.high < 1 + r

    def leaving(self, look, factor):
        out = set()
        for k in self.results:
            for o in self.results:
                c = self.compare(o, k)
                if c.low is not None and c.low > factor:
                    out.add(k)
        return out
