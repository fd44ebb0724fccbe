"""Evaluates cosmos.bicep and cosmos.json, as Azure would, for the parameters on standard input, and prints the resources
of both as JSON: {"bicep": [...], "arm": [...]}. It knows what these two files use, and stops at anything else."""
import json
import re
import sys
from pathlib import Path

from pycep import BicepParser

INFRA = Path(sys.argv[1])
GROUP = {"location": "westeurope"}


def guid(*parts):
    """Azure's own differs; here it only has to depend on the same texts."""
    return "guid of " + " and ".join(parts)


def defaults(declared, name):
    return {key: value[name] for key, value in declared.items() if value.get(name) is not None}


# ---- Bicep, as pycep parses it: identifiers are texts like any other.


class Bicep:
    def __init__(self, given):
        self.file = BicepParser().parse(text=(INFRA / "cosmos.bicep").read_text())
        self.names = {}
        for key, value in {**defaults(self.file["parameters"], "default"), **given}.items():
            self.names[key] = self.value(value)
        for key, variable in self.file["variables"].items():
            self.names[key] = self.value(variable["value"])

    def value(self, it):
        if isinstance(it, str):
            return re.sub(r"\$\{([\w.]+)\}", lambda part: self.part(part[1]), it) if "${" in it else self.names.get(it, it)
        if isinstance(it, list):
            return [self.value(one) for one in it]
        if not isinstance(it, dict):
            return it
        if set(it) == {"function"}:
            return self.call(it["function"])
        if set(it) == {"operator"}:
            return self.operate(it["operator"])
        if "loop_type" in it:
            return self.loop(it)
        return {key: self.value(one) for key, one in it.items()}

    def part(self, expression):
        """What stands in a text between ${ and }."""
        name, _, attribute = expression.partition(".")
        return self.id(name) if attribute == "id" else self.names[expression]

    def id(self, resource):
        return f"{self.file['resources'][resource]['type']}:{self.paths[resource]}"

    def call(self, function):
        given = function["parameters"]
        if function["type"] == "guid":
            return guid(*(self.value(one) for one in given.values()))
        if function["type"] == "resource_group":
            return GROUP[function["property_name"]]
        if function["type"] == "load_json_content":
            return json.loads((INFRA / given["file_path"]).read_text())
        if function["type"] == "union":
            return {**self.value(given["arg_1"]), **self.value(given["arg_2"])}
        raise NotImplementedError(function)

    def operate(self, operator):
        operands = operator["operands"]
        if operator["type"] == "conditional":
            return self.value(operands["true_value" if self.value(operands["condition"]) else "false_value"])
        if operator["type"] == "equals":
            return self.value(operands["operand_1"]) == self.value(operands["operand_2"])
        if operator["type"] == "not_equals":
            return self.value(operands["operand_1"]) != self.value(operands["operand_2"])
        if operator["type"] == "and":
            return self.value(operands["operand_1"]) and self.value(operands["operand_2"])
        if operator["type"] == "property_accessor" and operands["operand_2"] == "id":
            return self.id(operands["operand_1"])
        raise NotImplementedError(operator)

    def loop(self, it, of=None):
        detail, made = it["loop_type"]["detail"], []
        for one in self.names[detail["array_name"]]:
            self.names[detail["item_name"]] = one
            made.append((of or self.value)(it["config"]))
        self.names.pop(detail["item_name"], None)
        return made

    def resources(self):
        self.paths, made = {}, []
        for key, resource in self.file["resources"].items():
            config = resource["config"]
            if "condition" in config and "loop_type" not in config:
                if not self.value(config["condition"]):
                    continue
                config = config["config"]
            if "loop_type" in config:
                made.extend(self.loop(config, lambda one: self.resource(resource, one)))
            else:
                made.append(self.resource(resource, config))
                self.paths[key] = made[-1]["name"]
        return made

    def resource(self, resource, config):
        config = dict(config)
        # It is the name of a resource, which may be that of a parameter too.
        parent = config.pop("parent", None)
        after = [self.id(one) if one in self.paths else one for one in config.pop("dependsOn", [])]
        serial = {one["type"]: one["argument"] for one in resource["decorators"]}
        body = {**self.value(config), **serial, **({"after": after} if after else {})}
        body["name"] = (self.paths[parent] + "/" if parent else "") + body["name"]
        return {"type": resource["type"], "apiVersion": resource["api_version"], **body}


# ---- ARM: a text in brackets is an expression.

TOKEN = re.compile(r"\s*(?:'([^']*)'|(\w+)|([(),.\[\]]))")


class Arm:
    def __init__(self, given):
        self.file = json.loads((INFRA / "cosmos.json").read_text())
        self.parameters, self.variables, self.indexes = {}, {}, {}
        for key, value in {**defaults(self.file["parameters"], "defaultValue"), **given}.items():
            self.parameters[key] = self.value(value)
        for key, value in self.file["variables"].items():
            self.variables[key] = self.value(value)

    def value(self, it):
        if isinstance(it, str) and it.startswith("[") and it.endswith("]"):
            self.tokens = [match.groups() for match in TOKEN.finditer(it[1:-1])]
            result = self.expression()
            assert not self.tokens, f"something follows in {it}"
            return result
        if isinstance(it, list):
            return [self.value(one) for one in it]
        if isinstance(it, dict):
            made = {key: self.value(one) for key, one in it.items() if key != "copy"}
            for copy in it.get("copy", []):
                made[copy["name"]] = [self.copied(copy, index) for index in range(self.value(copy["count"]))]
            return made
        return it

    def copied(self, copy, index):
        self.indexes[copy["name"]] = index
        return self.value(copy["input"])

    def expression(self):
        text, word, sign = self.tokens.pop(0)
        if text is not None:
            return text
        assert word, f"unexpected {sign}"
        self.expect("(")
        given = []
        while not self.accept(")"):
            given.append(self.expression())
            self.accept(",")
        result = self.call(word, given)
        while self.tokens and self.tokens[0][2] in (".", "["):
            if self.accept("."):
                result = result[self.tokens.pop(0)[1]]
            elif self.accept("["):
                result = result[self.expression()]
                self.expect("]")
        return result

    def accept(self, sign):
        if self.tokens and self.tokens[0][2] == sign:
            return self.tokens.pop(0)
        return None

    def expect(self, sign):
        assert self.accept(sign), f"{sign} is missing"

    def call(self, function, given):
        return {
            "parameters": lambda name: self.parameters[name],
            "variables": lambda name: self.variables[name],
            "if": lambda condition, yes, no: yes if condition else no,
            "equals": lambda one, other: one == other,
            "not": lambda one: not one,
            "and": lambda *all_of: all(all_of),
            "createArray": lambda *items: list(items),
            "createObject": lambda *pairs: dict(zip(pairs[::2], pairs[1::2])),
            "union": lambda one, other: {**one, **other},
            "format": lambda pattern, *items: pattern.format(*items),
            "length": len,
            "copyIndex": lambda name: self.indexes[name],
            "resourceGroup": lambda: GROUP,
            "resourceId": lambda kind, *names: f"{kind}:{'/'.join(names)}",
            "guid": guid,
        }[function](*given)

    def resources(self):
        made = []
        for resource in self.file["resources"]:
            if not self.value(resource.get("condition", True)):
                continue
            known = {key: value for key, value in resource.items() if key not in ("condition", "copy", "metadata", "dependsOn")}
            # Each needs the one before it, but for the private endpoint, which needs the account; what else it waits for, the file says.
            is_endpoint = resource["type"] == "Microsoft.Network/privateEndpoints"
            wanted = [f"{one['type']}:{one['name']}" for one in (made[:1] if is_endpoint else made[-1:])]
            needs = self.value(resource.get("dependsOn", []))
            if is_endpoint:
                known["after"] = needs[1:]
                needs = needs[:1]
            assert needs == wanted, f"{resource['name']} depends on {wanted}"
            copy = resource.get("copy")
            if copy:
                if copy.get("mode") == "serial":
                    known["batchSize"] = copy["batchSize"]
                more = {"name": copy["name"], "input": known}
                made.extend([self.copied(more, index) for index in range(self.value(copy["count"]))])
            else:
                made.append(self.value(known))
        return made


given = json.load(sys.stdin)
json.dump({"bicep": Bicep(given).resources(), "arm": Arm(given).resources()}, sys.stdout)
