"""Which settings are secrets, and how settings are shown without them.

In: a setting's key and value, as librdkafka or our own configuration names it. Out: what people may see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "********"

# By how a key ends: ssl.key.password is a secret, password_file and sasl.oauthbearer.token.endpoint.url are not.
_SECRET_KEY = re.compile(
    r"(?:password|passphrase|secret|token|credentials?|key\.pem|oauthbearer\.config|jaas\.config)$", re.IGNORECASE
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_URL_QUERY_VALUE = re.compile(r"(?<=[?&])([^=&\s]+)=[^&\s]+")

Scalar = str | int | float | bool


def is_secret(key: str, value: Scalar = "") -> bool:
    """Whether only the programs that need it may know the value: by its key, or by the credentials in a URL."""
    return bool(_SECRET_KEY.search(key)) or (isinstance(value, str) and bool(_URL_CREDENTIALS.search(value)))


def masked(key: str, value: Scalar) -> Scalar:
    """The value as it may be shown: secrets, and credentials and parameters in URLs, replaced."""
    if _SECRET_KEY.search(key):
        return MASK if value != "" else value
    if isinstance(value, str) and "://" in value:
        return _URL_QUERY_VALUE.sub(rf"\1={MASK}", _URL_CREDENTIALS.sub(MASK, value))
    return value


def masked_settings(settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The settings as they may be shown."""
    return {key: masked(key, value) for key, value in settings.items()}
