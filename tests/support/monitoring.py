#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at contrib/grafana/dibs.json and contrib/prometheus/dibs.rules.yml, by themselves and against a real Prometheus.

usage: monitoring.py board BOARD                    each panel is complete, and none covers another
       monitoring.py data BOARD PROMETHEUS          each query has data
       monitoring.py healthy RULES PROMETHEUS       each rule is evaluated, and what it selects is there
       monitoring.py alert PROMETHEUS NAME INSTANCE the condition of the alert holds for the instance"""
import json
import math
import re
import sys
import urllib.parse
import urllib.request

UNITS = {"none", "short", "s", "percentunit", "cps", "reqps"}


def panels(path):
    return [p for p in json.load(open(path))["panels"] if p["type"] != "row"]


def ask(prometheus, path, **params):
    url = f"http://{prometheus}/api/v1/{path}?{urllib.parse.urlencode(params)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def query(prometheus, expression):
    try:
        return ask(prometheus, "query", query=expression)["result"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{expression}\n{error.read().decode()}")


def rules(prometheus):
    return [r for group in ask(prometheus, "rules")["groups"] for r in group["rules"]]


def board(path):
    whole = json.load(open(path))
    assert whole["schemaVersion"] >= 36 and whole["uid"] and "id" not in whole, "not as an export has it"
    variables = {v["name"] for v in whole["templating"]["list"]}
    assert [v["type"] for v in whole["templating"]["list"]].count("datasource") == 1
    cells, ids, titles = set(), set(), set()
    for panel in whole["panels"]:
        at = panel["gridPos"]
        area = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not area & cells and at["x"] + at["w"] <= 24, f"{panel['title']} covers another panel"
        cells |= area
        assert panel["id"] not in ids and panel["title"] not in titles, panel["title"]
        ids.add(panel["id"])
        titles.add(panel["title"])
    for panel in panels(path):
        title = panel["title"]
        assert len(panel["description"]) > 30, f"{title}: no description"
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, f"{title}: no unit"
        assert panel["targets"], f"{title}: no query"
        for target in panel["targets"]:
            for source in (panel["datasource"], target["datasource"]):
                assert source == {"type": "prometheus", "uid": "${datasource}"}, f"{title}: a data source by name"
            assert target["legendFormat"], f"{title}: no legend"
            for used in re.findall(r"\$(\w+)", target["expr"]):
                assert used in variables | {"__rate_interval"}, f"{title}: ${used}"
            for selector in re.findall(r"\{[^}]*\}", target["expr"]):
                assert "$instance" in selector and "$job" in selector, f"{title}: not of the chosen daemons"


def data(path, prometheus):
    missing = []
    for panel in panels(path):
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "10s")
            expression = re.sub(r"\$(job|instance|pool)", ".*", expression)
            result = query(prometheus, expression)
            if not any(math.isfinite(float(series["value"][1])) for series in result):
                missing.append(f"{panel['title']}: {expression}: {[r['value'][1] for r in result]}")
    for variable in json.load(open(path))["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            result = query(prometheus, re.sub(r"\$(job|instance)", ".*", series))
            if not all(label in one["metric"] for one in result) or not result:
                missing.append(f"variable {variable['name']}")
    assert not missing, "no data:\n" + "\n".join(missing)


def healthy(path, prometheus):
    named = re.findall(r"alert: (\w+)", open(path).read())
    loaded = rules(prometheus)
    assert sorted(named) == sorted(r["name"] for r in loaded), "Prometheus has other rules"
    for rule in loaded:
        assert rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}"
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["name"]
        for selector in set(re.findall(r"((?:dibs_|up|process_)\w*(?:\{[^}]*\})?)", rule["query"])):
            if not selector.startswith("le"):
                assert query(prometheus, selector), f"{rule['name']}: nothing is {selector}"
        for one in rule["alerts"]:
            for text in one["annotations"].values():
                assert "error expanding" not in text and "no value" not in text and "{{" not in text, text


def alert(prometheus, name, instance):
    expression = next(r["query"] for r in rules(prometheus) if r["name"] == name)
    result = query(prometheus, expression)
    assert any(series["metric"].get("instance") == instance for series in result), f"{name}: {result}"


if __name__ == "__main__":
    try:
        {"board": board, "data": data, "healthy": healthy, "alert": alert}[sys.argv[1]](*sys.argv[2:])
    except AssertionError as error:
        sys.exit(f"monitoring: {error}")
