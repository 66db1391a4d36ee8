"""Writes stl.json: decompositions by statsmodels 0.15.0, for stl_test.go.

    pip install statsmodels==0.15.0
    python3 stl.py > stl.json
"""

import json
import math

from statsmodels.tsa.seasonal import STL

PERIOD = 12
series = [10 + 0.05 * i + 2 * math.sin(2 * math.pi * i / PERIOD) + 0.3 * math.cos(1.7 * i) for i in range(70)]
series[31] += 6

cases = []
for name, seasonal, degree, outer in [
    ("narrow", 7, 1, 0),
    ("narrow, robust", 7, 1, 15),
    ("wide, degree 0", 701, 0, 0),
    ("wide, degree 0, robust", 701, 0, 5),
]:
    fit = STL(series, period=PERIOD, seasonal=seasonal, seasonal_deg=degree, trend_deg=1, low_pass_deg=1, robust=outer > 0)
    found = fit.fit(inner_iter=2, outer_iter=outer)
    cases.append(
        {
            "name": name,
            "seasonal_window": seasonal,
            "trend_window": fit.config["trend"],
            "low_pass_window": fit.config["low_pass"],
            "degree": degree,
            "outer": outer,
            "seasonal": [round(float(x), 9) for x in found.seasonal],
            "trend": [round(float(x), 9) for x in found.trend],
        }
    )
print(json.dumps({"period": PERIOD, "series": series, "cases": cases}))
