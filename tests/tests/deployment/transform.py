"""Prints the SAM template named by the argument twice, as JSON: as written, and as CloudFormation's transform makes it.

Standard input holds the parameters, as JSON. Like `sam package`, it replaces each archive by an address in S3.
"""
import copy
import json
import sys

from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.translator import Translator
from samtranslator.parser.parser import Parser
from samtranslator.yaml_helper import yaml_parse

source = yaml_parse(open(sys.argv[1], encoding="utf-8"))
packaged = copy.deepcopy(source)
for name, resource in packaged["Resources"].items():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = {"Bucket": "archives", "Key": f"{name}.zip"}
try:
    transformed = Translator({}, Parser()).translate(packaged, json.load(sys.stdin))
except InvalidDocumentException as error:
    sys.exit("\n".join(cause.message for cause in [error, *error.causes]))
json.dump({"source": source, "transformed": transformed}, sys.stdout, default=str)
