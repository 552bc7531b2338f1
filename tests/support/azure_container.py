"""Makes a container in Azurite: CONTAINER, and the URL, name and key of the account."""
import base64
import email.utils
import hashlib
import hmac
import sys
import urllib.request

container, url, account, key = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
signed = "PUT" + "\n" * 12 + headers + f"/{account}/{account}/{container}\nrestype:container"
signature = base64.b64encode(hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)).decode()
request = urllib.request.Request(f"{url}/{container}?restype=container", method="PUT", headers={
    "x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {account}:{signature}"})
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
