"""Microsoft's Python SDK against the strict server: python azure_cosmos.py ENDPOINT KEY

Exits with a traceback at the first difference from what the service does, and prints "ok" at the end.
"""

import sys
import time

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, exceptions

ITEMS = 60


def fails(status, call):
    try:
        call()
    except exceptions.CosmosHttpResponseError as error:
        assert error.status_code == status, (status, error.status_code, str(error))
        return error
    raise AssertionError(f"expected {status}")


def crud(container):
    created = container.create_item({"id": "one", "pk": "a", "n": 1})
    assert created["n"] == 1 and created["_etag"]
    fails(409, lambda: container.create_item({"id": "one", "pk": "a"}))
    assert container.read_item("one", "a") == created
    fails(404, lambda: container.read_item("one", "b"))
    replaced = container.replace_item("one", {"id": "one", "pk": "a", "n": 2})
    condition = {"etag": created["_etag"], "match_condition": MatchConditions.IfNotModified}
    fails(412, lambda: container.replace_item("one", {"id": "one", "pk": "a", "n": 3}, **condition))
    assert container.upsert_item({"id": "one", "pk": "a", "n": 4})["_etag"] != replaced["_etag"]
    assert container.upsert_item({"id": "two", "pk": "a"})["id"] == "two"
    container.delete_item("two", "a")
    fails(404, lambda: container.delete_item("two", "a"))
    odd = {"id": "ünï cödé:1", "pk": 'quo"te \\ ø'}
    container.create_item(odd)
    assert container.read_item(odd["id"], odd["pk"])["pk"] == odd["pk"]
    container.delete_item(odd["id"], odd["pk"])


def patch(container):
    item = container.upsert_item({"id": "p", "pk": "a", "n": 1, "list": [1], "gone": 1})
    operations = [
        {"op": "incr", "path": "/n", "value": 5},
        {"op": "add", "path": "/list/-", "value": 2},
        {"op": "set", "path": "/inner", "value": {"x": None}},
        {"op": "replace", "path": "/inner/x", "value": "y"},
        {"op": "remove", "path": "/gone"},
        {"op": "move", "from": "/inner/x", "path": "/moved"},
    ]
    patched = container.patch_item("p", "a", operations)
    found = {name: patched.get(name) for name in ("n", "list", "inner", "gone", "moved")}
    assert found == {"n": 6, "list": [1, 2], "inner": {}, "gone": None, "moved": "y"}, found
    one = [{"op": "incr", "path": "/n", "value": 1}]
    condition = {"etag": item["_etag"], "match_condition": MatchConditions.IfNotModified}
    fails(412, lambda: container.patch_item("p", "a", one, **condition))
    fails(412, lambda: container.patch_item("p", "a", one, filter_predicate="from c where c.n = 1"))
    assert container.patch_item("p", "a", one, filter_predicate="from c where c.n = 6")["n"] == 7
    fails(400, lambda: container.patch_item("p", "a", one * 11))
    fails(400, lambda: container.patch_item("p", "a", [{"op": "set", "path": "/pk", "value": "b"}]))
    fails(404, lambda: container.patch_item("missing", "a", one))


def batch(container):
    operations = [
        ("create", ({"id": "b1", "pk": "a", "n": 1},)),
        ("upsert", ({"id": "b2", "pk": "a", "n": 2},)),
        ("patch", ("b1", [{"op": "incr", "path": "/n", "value": 10}])),
        ("read", ("b2",)),
        ("delete", ("b2",)),
    ]
    results = container.execute_item_batch(operations, partition_key="a")
    assert [result["statusCode"] for result in results] == [201, 201, 200, 200, 204], results
    assert container.read_item("b1", "a")["n"] == 11
    failing = [
        ("create", ({"id": "b3", "pk": "a"},)),
        ("patch", ("b1", [{"op": "incr", "path": "/n", "value": 1}]), {"filter_predicate": "from c where c.n = 0"}),
    ]
    try:
        container.execute_item_batch(failing, partition_key="a")
        raise AssertionError("the batch fails")
    except exceptions.CosmosBatchOperationError as error:
        assert [result["statusCode"] for result in error.operation_responses] == [424, 412], error.operation_responses
    fails(404, lambda: container.read_item("b3", "a"))


def queries(container):
    for n in range(ITEMS):
        item = {"id": f"q{n}", "pk": f"p{n % 20}", "n": n, "group": n % 3}
        if n % 2 == 0:
            item["even"] = n
        container.create_item(item)

    def ask(query, **options):
        options = options or {"enable_cross_partition_query": True}
        return list(container.query_items(query, **options))

    where = "WHERE STARTSWITH(c.id, 'q')"
    assert ask(f"SELECT VALUE COUNT(1) FROM c {where}") == [ITEMS]
    assert ask(f"SELECT VALUE SUM(c.n) FROM c {where}") == [sum(range(ITEMS))]
    assert ask(f"SELECT VALUE MIN(c.n) FROM c {where}") == [0]
    assert ask(f"SELECT VALUE MAX(c.n) FROM c {where}") == [ITEMS - 1]
    assert ask(f"SELECT VALUE AVG(c.even) FROM c {where}") == [sum(range(0, ITEMS, 2)) / (ITEMS / 2)]
    assert ask("SELECT VALUE COUNT(1) FROM c WHERE c.id = 'nobody'") == [0]
    assert ask("SELECT VALUE MIN(c.n) FROM c WHERE c.id = 'q7'") == [7]
    parameters = [{"name": "@least", "value": ITEMS - 5}]
    counted = ask(
        "SELECT VALUE COUNT(1) FROM c WHERE c.n >= @least", parameters=parameters, enable_cross_partition_query=True
    )
    assert counted == [5], counted
    ordered = "SELECT VALUE c.n FROM c WHERE c.n >= 0 AND IS_DEFINED(c.group) ORDER BY c.n"
    options = {"enable_cross_partition_query": True, "max_item_count": 7}
    assert ask(f"{ordered} DESC", **options) == list(reversed(range(ITEMS)))
    assert ask(ordered.replace("VALUE", "TOP 5 VALUE"), **options) == [0, 1, 2, 3, 4]
    assert ask(f"{ordered} OFFSET 10 LIMIT 3", **options) == [10, 11, 12]
    both = "SELECT c.group, c.n FROM c WHERE c.group = 1 ORDER BY c.group, c.n"
    assert [item["n"] for item in ask(both, **options)] == list(range(1, ITEMS, 3))
    assert sorted(ask(f"SELECT DISTINCT VALUE c.group FROM c {where}")) == [0, 1, 2]
    within = ask(f"SELECT VALUE COUNT(1) FROM c {where}", partition_key="p3")
    assert within == [ITEMS / 20], within
    assert len(ask("SELECT * FROM c WHERE c.n < 30 AND IS_DEFINED(c.group)", **options)) == 30
    refused = fails(400, lambda: ask("SELECT * FROM c WHERE c.n > 1 AND c.group = 2 ORDER BY c.n"))
    assert "would scan" in str(refused), refused
    assert len(list(container.read_all_items())) >= ITEMS


def expiry(container):
    assert container.read()["defaultTtl"] == -1
    container.create_item({"id": "short", "pk": "t", "ttl": 1})
    container.create_item({"id": "long", "pk": "t", "ttl": 3600})
    container.create_item({"id": "kept", "pk": "t"})
    fails(400, lambda: container.create_item({"id": "bad", "pk": "t", "ttl": 0}))
    container.patch_item("kept", "t", [{"op": "set", "path": "/ttl", "value": 1}])
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        left = {item["id"] for item in container.query_items("SELECT * FROM c", partition_key="t")}
        if left == {"long"}:
            return
        time.sleep(0.2)
    raise AssertionError(left)


def main(endpoint, key):
    client = CosmosClient(endpoint, key)
    database = client.create_database("sdk")
    policy = {
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/list/*"}],
        "compositeIndexes": [[{"path": "/group", "order": "ascending"}, {"path": "/n", "order": "ascending"}]],
    }
    container = database.create_container(
        "items", partition_key=PartitionKey("/pk"), indexing_policy=policy, default_ttl=-1
    )
    fails(409, lambda: database.create_container("items", partition_key=PartitionKey("/pk")))
    ranges = list(container.read_feed_ranges())
    assert len(ranges) == 3, ranges
    for part in (crud, patch, batch, queries, expiry):
        part(container)
        print(part.__name__, flush=True)
    database.delete_container("items")
    fails(404, lambda: container.read_item("one", "a"))
    client.delete_database("sdk")
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
