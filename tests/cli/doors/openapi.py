"""Fails if a recorded exchange is not one that an OpenAPI document declares: openapi.py DOCUMENT FOLDER.

The folder has what was sent on each connection (`1.sent`), and what was heard (`1.heard`)."""
import http.client
import io
import json
import re
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import yaml
from jsonschema import Draft202012Validator

# Of HTTP itself: no document declares them.
OF_HTTP = set("host connection keep-alive date user-agent accept accept-encoding accept-language cache-control".split())
OF_HTTP |= {"content-length", "content-type", "transfer-encoding", "sec-fetch-mode"}


class Heard(io.BytesIO):
    """What a service has said, as the socket that http.client reads answers from."""

    def makefile(self, *_):
        return self

    def close(self):
        pass


def wrong(why):
    raise ValueError(why)


def resolve(node):
    """Follows references, and closes objects: a field that is not declared is wrong here."""
    if isinstance(node, list):
        return [resolve(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found = document
        for name in node["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return resolve(found)
    found = {name: resolve(value) for name, value in node.items()}
    return {"additionalProperties": False, **found} if "properties" in found else found


def operation_of(method, path):
    # A name may have slashes. The longest path comes first.
    for template in sorted(paths, key=len, reverse=True):
        pattern = ".*".join(re.escape(part) for part in re.split(r"\{\w+\}", template))
        if re.fullmatch(pattern, path) and method.lower() in paths[template]:
            operation = paths[template][method.lower()]
            return operation, paths[template].get("parameters", []) + operation.get("parameters", [])
    return wrong("no such route")


def check_request(method, target, headers, body):
    url, sent = urlsplit(target), fields(headers)
    operation, parameters = operation_of(method, url.path)
    schemes = document["components"]["securitySchemes"] or {}
    taken = [schemes.get(name, {}).get("scheme") for each in document["security"] for name in each]
    not sent.pop("authorization", None) or "bearer" in taken or wrong("no bearer is declared")
    sent.update(parse_qsl(url.query, keep_blank_values=True))
    known = {each["name"].lower(): each for each in parameters if each["in"] != "path"}
    for name, value in sent.items():
        check(known[name]["schema"], value) if name in known else wrong(f"{name} is not declared")
    all(name in sent for name in known if known[name].get("required")) or wrong("a parameter is missing")
    check_body(operation.get("requestBody", {}), headers, body)
    return operation


def check_answer(operation, status, headers, body):
    answer = operation["responses"].get(str(status)) or wrong("the status is not declared")
    known = {name.lower(): value["schema"] for name, value in answer.get("headers", {}).items()}
    for name, value in fields(headers).items():
        name in known or wrong(f"the header {name} is not declared")
        check(known[name], int(value) if known[name]["type"] == "integer" else value)
    check_body({"required": "content" in answer, **answer}, headers, body)


def fields(headers):
    return {name.lower(): value for name, value in headers.items() if name.lower() not in OF_HTTP}


def check(schema, value):
    for error in Draft202012Validator(schema).iter_errors(value):
        wrong(error.message)


def check_body(declared, headers, body):
    if not body:
        return declared.get("required") and wrong("the body is missing")
    kind = headers.get_content_type()
    kind in declared.get("content", {}) or wrong(f"a body of {kind} is not declared")
    check(declared["content"][kind]["schema"], json.loads(body))


def exchange(sent, heard):
    """Checks the next exchange of a connection, and says what it was."""
    method, target, _ = sent.readline().decode().split()
    headers, status = http.client.parse_headers(sent), "not answered"
    try:
        operation = check_request(method, target, headers, sent.read(int(headers.get("Content-Length", 0))))
        answer = http.client.HTTPResponse(heard, method=method)
        answer.begin()
        status, text = answer.status, answer.read()
        check_answer(operation, status, answer.headers, text)
    except http.client.HTTPException:
        # The client has gone away before.
        status = "not answered"
    except ValueError as error:
        sys.exit(f"{method} {target} ({status}): {error}")
    return f"{method} {status}"


document = yaml.safe_load(Path(sys.argv[1]).read_text())
paths, seen = resolve(document["paths"]), set()
for file in Path(sys.argv[2]).glob("*.sent"):
    sent, heard = io.BytesIO(file.read_bytes()), Heard(file.with_suffix(".heard").read_bytes())
    while sent.tell() < len(sent.getvalue()):
        seen.add(exchange(sent, heard))
print(*sorted(seen), sep="\n")
