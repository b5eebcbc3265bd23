"""Every number of the page of `tiebreak race` again, without tiebreak: recompute.py out/race."""
# mypy: ignore-errors

import csv
import html
import json
import math
import re
import sys
from itertools import takewhile
from pathlib import Path
from statistics import median

texts = [Path(sys.argv[1], f"{n}.csv").read_text() for n in ("instances", "rows", "refused")]
courses, rows, refused = ([*csv.DictReader(text.splitlines())] for text in texts)
page = html.unescape(Path(sys.argv[1], "race.html").read_text(encoding="utf-8"))
for one in courses + rows:  # numbers, wherever a cell is one
    one |= {k: float(v) for k, v in one.items() if re.fullmatch(r"-?([\d.]+(e.\d+)?|inf|nan)", v)}
known, raced = {c["instance"]: c for c in courses}, [c["instance"] for c in courses if c["counts"]]
runs = {(row["instance"], row["method"]): [] for row in rows}
for row in rows:
    c = known[row["instance"]]
    row["g"], row["|f|"] = row["lower_error"] / c["lower"], row["upper_error"] / c["upper"]
    row["f above"] = (row["upper"] - c["f"]) / c["upper"]
    runs[row["instance"], row["method"]].append(row)
official = [m for m in dict.fromkeys(m for _, m in runs) if not {":", ","} & set(m)]
met = {f"{c} 1e-{digits}": {} for c in ("weak", "absolute") for digits in (2, 3, 4, 6)}
for target, (key, run) in ((t, run) for t in met for run in runs.items()):
    what, eps = "|f|" if target[0] == "a" else "f above", float(target.split()[1])
    good = list(takewhile(lambda r: max(r[what], r["g"]) <= eps, reversed(run)))  # noqa: B023
    met[target] |= {key: good[-1]} if good else {}  # the first row from which on it stays good
best = {t: {i: {m: r for m in official if (r := met[t].get((i, m)))} for i in raced} for t in met}


def ratios(target, method, what="passes"):
    mine = [(best[target][at].values(), row) for (at, m), row in met[target].items() if m == method]
    return [r[what] / max(min((b[what] for b in c), default=math.inf), 1e-9) for c, r in mine]


def cells(caption, method, what, at, *_):
    if cost := re.search(r"median (\w+) there", caption):
        many = [ratios(target, method, cost[1]) for target in met]
        half = [f" ({median(some):.3g})" if (some := [x for x in r if x]) else "" for r in many]
        return [f"{len(r)}{typical}" for r, typical in zip(many, half, strict=True)]
    if caption.startswith("Passes"):
        there, ran = met[" ".join(caption.split()[2:4])], [(i, method) for i in raced]
        return [f"{there[k]['passes']:,.0f}" if k in there else "–" * (k in runs) for k in ran]
    found, label = [], f"{method}: {at}" if at else method
    for run in (runs[i, label] for i in raced if (i, label) in runs):
        ks = (run[-1]["iteration"] / 10, run[-1]["iteration"])
        near = [[r[what] for r in run if k / 2 < r["iteration"] <= k] for k in ks]
        a, b = (max(some, default=math.nan) for some in near)
        found += [math.log10(a / b) if b > 1e-14 else math.inf] if 1e-14 < a < math.inf > b else []
    return [f"{median(found):.3g}" if found else "–", str(len(found))]


pairs = [(True, f"{len(official)} methods on {len(courses)} instances" in page)]
made = r"<caption>((?:On how|Passes|Publ).*?)</caption>.*?<tbody>(.*?)</tbody>"
for caption, body in re.findall(made, page, re.S):
    for line in re.findall("<tr>(.*?)</tr>", body):
        shown = re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line)
        pairs += zip(shown[::-1], cells(caption, *shown)[::-1], strict=False)
for target in met:
    count = {m: len(ratios(target, m)) for m in official}
    top = [f"{m} on {count[m]}" for m in sorted(official, key=count.get, reverse=True)[:3]]
    every = {i: sorted((r["passes"], m) for m, r in best[target][i].items()) for i in raced}
    ours = {i: n for i, c in every.items() for n, m in c if m in ("agm-bio", "p-agm-bio")}
    first = ", ".join(i for i, n in ours.items() if n == every[i][0][0]) or "none"
    last = ", ".join(i for i, n in ours.items() if n == every[i][-1][0] and every[i][1:])
    place = f"AGM-BiO arrives on {len(ours)}, is first on {first} and last on {last or 'none'}"
    pairs.append((True, f"{target}: {', '.join(top)} arrive most often; {place}" in page))
for group in json.loads(re.search('id="data">(.*?)</script>', page)[1])["groups"]:
    for t, (name, y) in ((t, column) for t in met for column in group["columns"].items()):
        passes = [row["passes"] for (_, m), row in met[t].items() if m == group["name"]]
        some = ratios(t, group["name"]) if name.startswith("perf") else passes
        shares = [sum(c <= x for c in some) / len(raced) for x in group["columns"]["x"]]
        pairs += zip(y, shares, strict=True) if name.endswith(t) else ()
claims = ["FALSE" in r["why"] for r in refused if r["instance"] not in raced]
pairs.append((True, not claims or f"{len(claims)} methods, {sum(claims)} false" in page))
print(f"{len(pairs)} numbers and sentences made again, {sum(a != b for a, b in pairs)} differ")
