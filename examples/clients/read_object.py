#!/usr/bin/env python3
"""Reads a fenced object without the library, with boto3: read_object.py BUCKET KEY > FILE

An object begins with a line: fencing 1 TOKEN NONCE PLACE. PLACE is `here` if the contents follow,
`gone` if the object is deleted, and `at KEY` if they are in the object with that key.
"""
import shutil
import sys

import boto3

HEAD = 1024  # bytes: no line is longer


def read(s3, bucket, key):
    """Returns the token of the last write, and the contents as a file."""
    found = s3.get_object(Bucket=bucket, Key=key)["Body"]
    line = b""
    while not line.endswith(b"\n") and len(line) < HEAD and (byte := found.read(1)):
        line += byte
    magic, version, token, nonce, place = line.decode().rstrip("\n").split(" ", 4)
    if (magic, version) != ("fencing", "1"):
        raise ValueError(f"{key} was written without the fence, or in a later format")
    if place == "gone":
        raise FileNotFoundError(key)
    if place != "here":
        found = s3.get_object(Bucket=bucket, Key=place.removeprefix("at "))["Body"]
    return int(token), found


if __name__ == "__main__":
    token, contents = read(boto3.client("s3"), *sys.argv[1:])
    print(f"token {token}", file=sys.stderr)
    shutil.copyfileobj(contents, sys.stdout.buffer)
