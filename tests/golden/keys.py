"""Writes keys.json: expected keys and fingerprints, computed without any code of sendonce.

    python3 tests/golden/keys.py > tests/golden/keys.json

A field is its length in 4 bytes big-endian and its UTF-8 bytes; an absent one is FF FF FF FF.
key          HMAC-SHA-256(secret, version, namespace, source, event id, channel, recipient, template name, template
             version), first 16 bytes; four bits set to 8 (UUID version), two to binary 10 (variant); as UUID text
short        the same 16 bytes in base64url without padding
fingerprint  SHA-256(version, channel, provider, recipient, from, template name, template version, reference, content);
             content is JSON without blanks, members sorted by code point, numbers as written
"""

import base64
import hashlib
import hmac
import json
import sys
import uuid


class Written(float):
    """A number that keeps its spelling."""

    def __new__(cls, text):
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __repr__(self):
        return self.text


def fields(*values):
    run = b""
    for value in values:
        if value is None:
            run += b"\xff\xff\xff\xff"
        else:
            value = value.encode()
            run += len(value).to_bytes(4, "big") + value
    return run


def canonical(value):
    if isinstance(value, dict):
        members = (canonical(name) + ":" + canonical(value[name]) for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, Written):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def expected(case):
    document = json.loads(case["intent"], parse_int=Written, parse_float=Written)

    def text(value):
        return value.text if isinstance(value, Written) else value

    template = document.get("template") or {}
    name, version = template.get("name"), text(template.get("version"))
    channel, recipient = document.get("channel"), case["recipient"]
    mac = hmac.new(
        case["secret"].encode(),
        fields("sendonce-key-1", case["namespace"], document.get("source"), text(document["id"]), channel, recipient, name, version),
        hashlib.sha256,
    ).digest()
    raw = bytearray(mac[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    content = canonical(document.get("content") or {})
    fingerprint = hashlib.sha256(
        fields("sendonce-intent-1", channel, document.get("provider"), recipient, document.get("from"), name, version,
               document.get("reference"), content)
    ).hexdigest()
    return {
        **case,
        "key": str(uuid.UUID(bytes=bytes(raw))),
        "short": base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="),
        "fingerprint": fingerprint,
    }


SECRET = "correct horse battery staple"
PHONE, MAIL = "+447700900123", "person@example.com"


def case(name, intent, recipient, namespace="production", secret=SECRET):
    return {"name": name, "namespace": namespace, "secret": secret, "intent": intent, "recipient": recipient}


CASES = [
    case("the least", '{"id":"1","channel":"sms","to":"+447700900123"}', PHONE),
    case("an integer id is its digits", '{"id":1,"channel":"sms","to":"+44 (0)7700 900123"}', PHONE),
    case("a larger integer than any machine's", '{"id":123456789012345678901234567890,"channel":"sms","to":"+447700900123"}', PHONE),
    case("another namespace", '{"id":"1","channel":"sms","to":"+447700900123"}', PHONE, namespace="staging"),
    case("another secret", '{"id":"1","channel":"sms","to":"+447700900123"}', PHONE, secret="0123456789abcdef"),
    case("a secret longer than a block", '{"id":"1","channel":"sms","to":"+447700900123"}', PHONE, secret="x" * 65),
    case("a source", '{"id":"1","source":"billing","channel":"sms","to":"+447700900123"}', PHONE),
    case("another channel and recipient", '{"id":"1","channel":"email","to":"person@EXAMPLE.com"}', MAIL),
    case("a provider and no channel", '{"id":"1","provider":"captifi","to":"+447700900123"}', PHONE),
    case("a template", '{"id":"1","channel":"sms","to":"+447700900123","template":{"name":"login-code"}}', PHONE),
    case("a template's version", '{"id":"1","channel":"sms","to":"+447700900123","template":{"name":"login-code","version":3}}', PHONE),
    case("an id that is no ASCII", '{"id":"заказ-42/é","channel":"sms","to":"+447700900123"}', PHONE),
    case("an id with a line break", '{"id":"a\\r\\nX-Evil: 1","channel":"sms","to":"+447700900123"}', PHONE),
    case("content of every kind", '{"id":"1","channel":"sms","to":"+447700900123","from":"Example","reference":"order 42","content":'
         '{"z":[1,1.0,-0.50,1e+3,123456789012345678901234567890],"a":{"é":null,"e":true,"":false,"\\ud83d\\ude00":"\\u0001\\"\\\\/\\n\\u007f€"}}}', PHONE),
    case("what counts for neither", '{"id":"1","channel":"sms","to":"+447700900123","expires_at":"2026-11-30T00:00:00Z","metadata":{"trace":"x"}}', PHONE),
]

if __name__ == "__main__":
    json.dump([expected(case) for case in CASES], sys.stdout, indent=2, ensure_ascii=False)
    print()
